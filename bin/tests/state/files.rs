//! Files of the process: how many it may have open, and those that a killed one has left.

use std::fs;
use std::process::Command;

use super::place::{Gateway, Place};

/// The limits of open files that a process has: the one that holds, and the one that it may raise it to.
fn may_open(gateway: &Gateway) -> (u64, u64) {
    let limits = fs::read_to_string(format!("/proc/{}/limits", gateway.pid())).expect("it runs");
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let mut numbers = line
        .expect("a limit")
        .split_whitespace()
        .map(|it| it.parse().expect("a number"));
    (numbers.next().expect("two"), numbers.next().expect("two"))
}

fn in_flight(place: &Place, turns: u32) {
    let limits = format!("defaults: {{ limits: {{ in_flight: {turns} }} }}\n");
    place.write(&place.configured("one", "", &limits));
}

#[tokio::test]
async fn the_limit_of_open_files_is_raised_as_far_as_the_turns_in_flight_need_it() {
    let place = Place::new().await;
    in_flight(&place, 100);
    let gateway = place.start(place.limited(&["serve"], &["-S -n 256", "-H -n 1000"]));
    assert_eq!(may_open(&gateway), (2 * 100 + 200, 1000));
    assert!(!place.logged().contains("ulimit"), "{}", place.logged());
    assert_eq!(gateway.turn().await.0, 200);
    gateway.end();
}

#[tokio::test]
async fn where_it_may_not_be_raised_far_enough_it_is_raised_as_far_as_may_be_and_said() {
    let place = Place::new().await;
    in_flight(&place, 100);
    let gateway = place.start(place.limited(&["serve"], &["-S -n 256", "-H -n 300"]));
    assert_eq!(may_open(&gateway), (300, 300));
    let log = place.logged();
    for told in ["300", "400", "ulimit -n", "limits.in_flight"] {
        assert!(log.contains(told), "{told}: {log}");
    }
    assert_eq!(gateway.turn().await.0, 200);
    gateway.end();
}

#[tokio::test]
async fn what_a_killed_gateway_has_left_beside_its_file_goes_and_nothing_else_does() {
    let place = Place::new().await;
    place.write(&place.configuration("one", 1));
    let mut dead = Command::new("true").spawn().expect("it runs");
    dead.wait().expect("it ends");
    let beside = |name: String| place.home().join(name);
    let left = beside(format!("understudy.yaml.{}.new", dead.id()));
    let others = [
        // somebody is about to put this one in the place of the file
        beside(format!("understudy.yaml.{}.new", std::process::id())),
        beside(format!("other.yaml.{}.new", dead.id())),
        beside("understudy.yaml.mine.new".to_owned()),
        beside(format!("understudy.yaml.{}.old", dead.id())),
    ];
    for file in others.iter().chain([&left]) {
        fs::write(file, "half").expect("written");
    }
    let gateway = place.serve();
    assert!(!left.exists());
    for file in &others {
        assert!(file.exists(), "{}", file.display());
    }
    gateway.end();
}

#[tokio::test]
async fn a_configuration_is_checked_where_the_gateway_looks_for_it() {
    let place = Place::new().await;
    place.write(&place.configuration("one", 1));
    let checked = place.run(&["config", "check"]);
    let told = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(checked.status.success() && told.contains("understudy.yaml"), "{told}");
    place.write("nothing: is right");
    assert!(!place.run(&["config", "check"]).status.success());
    let named = place.home().join("named.yaml");
    fs::write(&named, place.configuration("one", 1)).expect("written");
    let named = named.to_str().expect("UTF-8");
    assert!(
        place.run(&["config", "check", named]).status.success(),
        "a name comes first"
    );
}

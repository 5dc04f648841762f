//! Bounds over a clock: who waits how long, and that every place comes back.

use std::time::Duration;

use super::*;

const WAIT: Duration = Duration::from_secs(1);

fn capacities() -> (Capacities, Clock) {
    let clock = Clock::movable();
    clock.hold();
    let telemetry = Telemetry::new().expect("sound");
    (Capacities::new(clock.clone(), telemetry), clock)
}

fn bound(most: usize, queue: usize) -> Bound {
    let wait = WAIT;
    Bound { most, queue, wait }
}

fn lane() -> Name {
    "one".into()
}

/// Polls once; `None` while it waits.
async fn once<T>(future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        done = future => Some(done),
        () = std::future::ready(()) => None,
    }
}

#[tokio::test]
async fn who_waits_gets_the_place_that_becomes_free() {
    let (all, _clock) = capacities();
    let (bound, lane) = (bound(1, 1), lane());
    let first = all.try_enter(&Whose::Gateway, &bound).expect("free");
    assert!(all.is_full(&Whose::Gateway, &bound));
    let second = all.enter(&Whose::Gateway, &bound, &lane, None);
    tokio::pin!(second);
    assert!(once(&mut second).await.is_none());
    assert_eq!(all.count(&Whose::Gateway), (1, 1));
    drop(first);
    let second = once(&mut second).await.expect("called").expect("a place");
    assert_eq!(all.count(&Whose::Gateway), (1, 0));
    drop(second);
    assert_eq!(all.count(&Whose::Gateway), (0, 0));
}

#[tokio::test]
async fn nobody_waits_longer_than_the_bound_or_its_own_deadline_says() {
    let (all, clock) = capacities();
    let (bound, lane) = (bound(1, 9), lane());
    let inside = all.try_enter(&Whose::Gateway, &bound).expect("free");
    let own = clock.now() + WAIT / 2;
    let long = all.enter(&Whose::Gateway, &bound, &lane, None);
    let short = all.enter(&Whose::Gateway, &bound, &lane, Some(own));
    tokio::pin!(long, short);
    assert!(once(&mut long).await.is_none() && once(&mut short).await.is_none());
    clock.advance(WAIT / 2);
    assert_eq!(short.await.expect_err("its deadline passed"), Shed::Waited);
    assert!(once(&mut long).await.is_none());
    clock.advance(WAIT / 2);
    assert_eq!(long.await.expect_err("it waited long enough"), Shed::Waited);
    assert_eq!(all.count(&Whose::Gateway), (1, 0), "nobody stands there any more");
    drop(inside);
    assert_eq!(all.count(&Whose::Gateway), (0, 0));
}

#[tokio::test]
async fn a_wait_that_is_cancelled_leaves_its_place_to_the_next() {
    let (all, _clock) = capacities();
    let (bound, lane) = (bound(1, 9), lane());
    let inside = all.try_enter(&Whose::Gateway, &bound).expect("free");
    let next = all.enter(&Whose::Gateway, &bound, &lane, None);
    tokio::pin!(next);
    {
        let cancelled = all.enter(&Whose::Gateway, &bound, &lane, None);
        tokio::pin!(cancelled);
        assert!(once(&mut cancelled).await.is_none());
        assert!(once(&mut next).await.is_none());
        assert_eq!(all.count(&Whose::Gateway), (1, 2));
    }
    assert_eq!(all.count(&Whose::Gateway), (1, 1));
    drop(inside);
    assert!(once(&mut next).await.expect("called").is_ok());
}

#[tokio::test]
async fn a_place_that_was_given_to_a_wait_that_is_cancelled_is_free_again() {
    let (all, _clock) = capacities();
    let (bound, lane) = (bound(1, 9), lane());
    let inside = all.try_enter(&Whose::Gateway, &bound).expect("free");
    {
        let called = all.enter(&Whose::Gateway, &bound, &lane, None);
        tokio::pin!(called);
        assert!(once(&mut called).await.is_none());
        drop(inside);
        assert_eq!(all.count(&Whose::Gateway), (1, 0), "it was called");
    }
    assert_eq!(all.count(&Whose::Gateway), (0, 0));
}

#[tokio::test]
async fn beyond_the_queue_one_is_refused_at_once() {
    let (all, _clock) = capacities();
    let (bound, lane) = (bound(1, 0), lane());
    let _inside = all.try_enter(&Whose::Gateway, &bound).expect("free");
    let refused = all.enter(&Whose::Gateway, &bound, &lane, None);
    assert_eq!(
        once(refused).await.expect("no wait").expect_err("full"),
        Shed::QueueFull
    );
}

#[tokio::test]
async fn one_that_loses_its_place_to_an_agent_with_fewer_is_told_at_once() {
    let (all, _clock) = capacities();
    let (bound, crowd, quiet) = (bound(1, 2), lane(), Name::from("two"));
    let _inside = all.try_enter(&Whose::Gateway, &bound).expect("free");
    let first = all.enter(&Whose::Gateway, &bound, &crowd, None);
    let last = all.enter(&Whose::Gateway, &bound, &crowd, None);
    let other = all.enter(&Whose::Gateway, &bound, &quiet, None);
    tokio::pin!(first, last, other);
    assert!(once(&mut first).await.is_none() && once(&mut last).await.is_none());
    assert!(once(&mut other).await.is_none(), "there is room for it");
    assert_eq!(once(&mut last).await.expect("told").expect_err("lost"), Shed::QueueFull);
    assert!(once(&mut first).await.is_none());
}

#[tokio::test]
async fn who_waits_when_the_gateway_stops_is_told_and_the_stop_waits_for_those_inside() {
    let (all, _clock) = capacities();
    let (bound, lane) = (bound(1, 9), lane());
    let inside = all.try_enter(&Whose::Gateway, &bound).expect("free");
    let waits = all.enter(&Whose::Gateway, &bound, &lane, None);
    let empty = all.empty(&Whose::Gateway);
    tokio::pin!(waits, empty);
    assert!(once(&mut waits).await.is_none() && once(&mut empty).await.is_none());
    all.turn_away(&Whose::Gateway);
    assert!(once(&mut waits).await.expect("told").is_err());
    assert!(once(&mut empty).await.is_none());
    drop(inside);
    assert!(once(&mut empty).await.is_some());
}

#[tokio::test]
async fn bounds_that_nobody_is_at_are_forgotten() {
    let (all, _clock) = capacities();
    for number in 0..100 {
        let whose = Whose::Provider(format!("p{number}").into());
        drop(all.try_enter(&whose, &bound(1, 1)).expect("free"));
    }
    let held = all.try_enter(&Whose::Gateway, &bound(1, 1)).expect("free");
    assert!(lock(&all.by_owner).len() <= 2);
    drop(held);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_a_crowd_nobody_is_inside_beyond_the_bound_and_every_place_comes_back() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    const MOST: usize = 3;
    let all = Arc::new(Capacities::new(Clock::real(), Telemetry::new().expect("sound")));
    let inside = Arc::new(AtomicUsize::new(0));
    let one = |number: usize| {
        let (all, inside) = (all.clone(), inside.clone());
        async move {
            let lane = format!("agent-{}", number % 5).into();
            let bound = Bound {
                most: MOST,
                queue: 20,
                wait: Duration::from_millis(if number.is_multiple_of(3) { 0 } else { 1000 }),
            };
            let entered = all.enter(&Whose::Gateway, &bound, &lane, None).await;
            if entered.is_ok() {
                assert!(inside.fetch_add(1, Ordering::SeqCst) < MOST);
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
            }
            entered.is_ok()
        }
    };
    let crowd: Vec<_> = (0..500).map(|number| beside(one(number))).collect();
    let mut entered = 0;
    for task in crowd {
        entered += usize::from(task.await.expect("no panic"));
    }
    assert!(entered > MOST);
    assert_eq!(all.count(&Whose::Gateway), (0, 0));
}

#[expect(
    clippy::disallowed_methods,
    reason = "a crowd on several threads is what this is about"
)]
fn beside<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> tokio::task::JoinHandle<T> {
    tokio::spawn(work)
}

/// How many waits in a line were booked, and how many turns found no place in it.
fn booked(all: &Capacities, line: &str) -> (u64, u64) {
    let scrape = all.telemetry.render();
    let sum = |name: &str, label: &str| {
        let mine = |line: &&str| line.starts_with(name) && line.contains(label);
        let counts = scrape.lines().filter(mine).filter_map(|line| line.rsplit(' ').next());
        counts.map(|count| count.parse::<u64>().expect("a count")).sum()
    };
    (
        sum(
            "understudy_turn_queue_seconds_count{",
            &format!("cause=\"{line}_full\""),
        ),
        sum("understudy_turns_shed_total{", &format!("bound=\"{line}\"")),
    )
}

#[tokio::test]
async fn whose_own_time_ends_in_the_line_has_waited_and_was_not_shed() {
    let (all, clock) = capacities();
    let (bound, lane) = (bound(1, 9), lane());
    let _inside = all.try_enter(&Whose::Gateway, &bound).expect("free");
    let own = all.enter(&Whose::Gateway, &bound, &lane, Some(clock.now() + WAIT / 2));
    tokio::pin!(own);
    assert!(once(&mut own).await.is_none());
    clock.advance(WAIT / 2);
    assert!(own.await.is_err());
    assert_eq!(booked(&all, "gateway"), (1, 0));
    let bounds = all.enter(&Whose::Gateway, &bound, &lane, Some(clock.now() + WAIT * 2));
    tokio::pin!(bounds);
    assert!(once(&mut bounds).await.is_none());
    clock.advance(WAIT);
    assert!(bounds.await.is_err());
    assert_eq!(booked(&all, "gateway"), (2, 1));
}

#[tokio::test]
async fn a_wait_that_is_cancelled_is_booked_as_long_as_it_was() {
    let (all, clock) = capacities();
    let (bound, lane, provider) = (bound(1, 9), lane(), Whose::Provider("a".into()));
    let _inside = all.try_enter(&provider, &bound).expect("free");
    {
        let cancelled = all.enter(&provider, &bound, &lane, None);
        tokio::pin!(cancelled);
        assert!(once(&mut cancelled).await.is_none());
        clock.advance(WAIT / 2);
        assert_eq!(booked(&all, "provider"), (0, 0));
    }
    assert_eq!(booked(&all, "provider"), (1, 0));
    let sum = "understudy_turn_queue_seconds_sum{cause=\"provider_full\"} 0.5";
    assert!(all.telemetry.render().contains(sum), "{}", all.telemetry.render());
}

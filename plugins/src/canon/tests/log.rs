//! What the log says of injections.

use std::fmt::{Debug, Write};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::*;

/// Keeps the lines of this plugin's own events.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _never_fails = write!(self.0, "{field}={value:?} ");
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("understudy_plugins::canon")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().expect("whole").push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn an_injection_is_one_line_with_reason_turn_and_model_and_a_repetition_is_none() {
    let folder = Folder::with("secret words");
    let lines = Lines::default();
    let _here = tracing::subscriber::set_default(lines.clone());
    let (loud, quiet) = (House::mode("sticky"), House::with(json!({ "logInjections": false })));
    let session = session("s", &folder);
    for run in 1..4 {
        loud.turn(&session, run, &["a"]).await;
        quiet.turn(&session, run, &["a"]).await;
    }
    let lines = lines.0.lock().expect("whole");
    assert_eq!(lines.len(), 1, "{lines:?}");
    for part in ["reason=\"new_session\"", "turn=1", "model=p/a", "canon injected"] {
        assert!(lines[0].contains(part), "{}", lines[0]);
    }
    assert!(!lines[0].contains("secret words"));
}

#[test]
fn a_missing_file_is_one_line_however_often_it_is_missed() {
    let folder = Folder::new();
    let lines = Lines::default();
    let _here = tracing::subscriber::set_default(lines.clone());
    let library = Library::new(vec!["AGENTS.md".to_owned()]);
    for _ in 0..3 {
        assert!(
            library
                .read_now(&folder.workspace(""), std::time::SystemTime::now())
                .is_none()
        );
    }
    let lines = lines.0.lock().expect("whole");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].contains("AGENTS.md") && lines[0].contains("is not there"),
        "{}",
        lines[0]
    );
}

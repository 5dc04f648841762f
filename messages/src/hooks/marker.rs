//! What plugins note down about a turn once it is known how the turn went.

use std::fmt;
use std::sync::Arc;

/// What is to be noted down when an attempt that carried a contribution has answered; otherwise never.
///
/// Only plugins of this process can leave a mark: on a wire there is none. Whoever builds the prompt keeps the marks with
/// it, commits those of the candidate that answered, and drops the others.
#[derive(Clone, Default)]
pub struct TurnMarks(Vec<Arc<dyn Fn() + Send + Sync>>);

impl TurnMarks {
    /// One mark: `note` is called when it counts. It must be quick, and calling it again must change nothing.
    pub fn on_answer(note: impl Fn() + Send + Sync + 'static) -> Self {
        Self(vec![Arc::new(note)])
    }

    /// Adds the marks of another contribution to the same prompt.
    pub fn join(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// Notes down everything: an attempt that carried all of it has answered.
    pub fn commit(&self) {
        self.0.iter().for_each(|note| note());
    }

    /// Whether there is nothing to note down.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl PartialEq for TurnMarks {
    /// Whether they are the very same marks.
    fn eq(&self, other: &Self) -> bool {
        let same = |(one, other): (&Arc<dyn Fn() + Send + Sync>, &Arc<_>)| Arc::ptr_eq(one, other);
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(same)
    }
}

impl Eq for TurnMarks {}

impl fmt::Debug for TurnMarks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TurnMarks({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn counting(count: &Arc<AtomicU32>) -> TurnMarks {
        let count = count.clone();
        TurnMarks::on_answer(move || {
            count.fetch_add(1, Ordering::Relaxed);
        })
    }

    #[test]
    fn joined_marks_are_committed_together_and_dropped_ones_never() {
        let (kept, dropped) = (Arc::default(), Arc::default());
        let mut marks = counting(&kept);
        marks.join(counting(&kept));
        drop(counting(&dropped));
        marks.commit();
        assert_eq!((kept.load(Ordering::Relaxed), dropped.load(Ordering::Relaxed)), (2, 0));
    }

    #[test]
    fn marks_are_equal_only_to_themselves() {
        let count = Arc::default();
        let marks = counting(&count);
        assert_eq!(marks, marks.clone());
        assert_ne!(marks, counting(&count));
        assert_eq!(TurnMarks::default(), TurnMarks::default());
    }
}

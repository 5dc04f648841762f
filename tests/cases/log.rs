//! The log of the whole process at its finest level, kept for those who search it for secrets.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tracing_subscriber::fmt::MakeWriter;

/// The most that is kept, in bytes.
const LIMIT: usize = 256 << 20;

/// What was logged. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    is_cut: bool,
}

impl Log {
    /// Captures the log of this process from now on. To be called once.
    pub(crate) fn capture() -> Self {
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::TRACE);
        subscriber.with_ansi(false).with_writer(log.clone()).init();
        log
    }

    /// Whether some line has this text.
    pub(crate) fn mentions(&self, text: &str) -> bool {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        memchr::memmem::find(&kept.bytes, text.as_bytes()).is_some()
    }

    /// Whether nothing had to be left out.
    pub(crate) fn is_whole(&self) -> bool {
        !self.0.lock().unwrap_or_else(PoisonError::into_inner).is_cut
    }
}

impl io::Write for &Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.bytes.len() + line.len() > LIMIT {
            kept.is_cut = true;
        } else {
            kept.bytes.extend_from_slice(line);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = &'a Log;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

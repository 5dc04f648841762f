//! Contract cases, measured results, recordings and properties of the whole classifier.

mod cases;
mod properties;
mod recordings;
mod waits;

use std::time::SystemTime;

use understudy_messages::failure::{Failure, Nuance, Reason};

use super::{Signal, StreamError, classify, classify_stream_error};

/// A response of a provider without quirks, without headers.
fn respond(status: u16, body: &str) -> Failure {
    respond_as("p", status, body)
}

fn respond_as(provider: &str, status: u16, body: &str) -> Failure {
    classify(&Signal {
        provider,
        status: Some(status),
        headers: &|_| None,
        body: body.as_bytes(),
        secrets: &[],
        now: SystemTime::UNIX_EPOCH,
    })
}

/// An error of which only the words are known.
fn words(message: &str) -> Failure {
    classify_stream_error(&StreamError {
        message: Some(message),
        ..StreamError::default()
    })
}

/// Checks rows of status, body and reason; status 0 stands for words alone.
#[track_caller]
fn assert_reasons(rows: &[(u16, &str, Reason)]) {
    for (status, body, reason) in rows {
        let failure = match status {
            0 => words(body),
            status => respond(*status, body),
        };
        assert_eq!(failure.reason, *reason, "{status} {body}");
    }
}

/// Checks that every text alone means a rate limit or what `nuance` says of it.
#[track_caller]
fn assert_nuance(texts: &[&str], nuance: Option<Nuance>) {
    for text in texts {
        let failure = respond(429, text);
        assert_eq!(failure.nuance, nuance, "{text}");
    }
}

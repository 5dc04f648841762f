//! What a status means, refined by the words that came with it (contract §5.3, amended by design §6).

use understudy_messages::failure::Reason::{
    self, Auth, AuthPermanent, Billing, ContextOverflow, Format, ModelNotFound, Overloaded, RateLimit, ServerError,
    SessionExpired, Timeout, Unclassified,
};

use super::classes;
use super::pattern::Text;
use super::table::{Class, Outcome, Verdict};

/// Which message classes a status lets speak.
#[derive(Debug)]
enum Hears {
    /// Every class, in its own order, except those of one reason that the status has ruled out.
    AllBut(Reason),
    /// The classes of these reasons, the first reason first.
    Only(&'static [Reason]),
}

/// One row: its own wordings first, then the message classes it hears, then what the bare status means.
#[derive(Debug)]
struct Row {
    statuses: &'static [u16],
    own: &'static [Class],
    hears: Hears,
    otherwise: Reason,
}

const ROWS: &[Row] = &[
    Row {
        statuses: &[400, 422],
        own: &[
            Class::of(Unclassified, "=no body | (no body)"),
            // a parameter's name may sound like any other class
            Class::of(
                Format,
                "^invalid ' | ^invalid schema for | ^unsupported parameter | ^unknown parameter \
         | ^unrecognized | ^missing required parameter | ^invalid type for | ^invalid value \
         | ^additional properties",
            ),
        ],
        hears: Hears::AllBut(ServerError),
        otherwise: Format,
    },
    Row {
        statuses: &[401, 403],
        own: &[classes::CONTENT_FILTER],
        hears: Hears::Only(&[AuthPermanent, Billing]),
        otherwise: Auth,
    },
    Row {
        statuses: &[402],
        own: PAYMENT,
        hears: Hears::Only(&[]),
        otherwise: Billing,
    },
    Row {
        statuses: &[404],
        own: &[],
        hears: Hears::Only(&[SessionExpired, Billing, AuthPermanent, Auth, Format, ContextOverflow]),
        otherwise: ModelNotFound,
    },
    Row {
        statuses: &[408],
        own: &[],
        hears: Hears::Only(&[]),
        otherwise: Timeout,
    },
    Row {
        statuses: &[410],
        own: &[],
        hears: Hears::Only(&[SessionExpired, Billing, AuthPermanent, Auth]),
        otherwise: Timeout,
    },
    Row {
        statuses: &[413],
        own: &[
            Class::of(Format, "image*too large | image dimension*"),
            Class::of(ContextOverflow, "too large"),
        ],
        hears: Hears::AllBut(ServerError),
        otherwise: Unclassified,
    },
    Row {
        statuses: &[429],
        // an empty account is no rate limit, but some providers say so of a spent allowance
        own: &[Class::of(RateLimit, "insufficient*balance")],
        hears: Hears::Only(&[Billing]),
        otherwise: RateLimit,
    },
    Row {
        statuses: &[499, 504, 522, 524],
        own: &[],
        hears: Hears::Only(&[Overloaded, ServerError]),
        otherwise: Timeout,
    },
    Row {
        statuses: &[529],
        own: &[],
        hears: Hears::Only(&[]),
        otherwise: Overloaded,
    },
];

/// Every 5xx without a row of its own.
const OTHER_SERVER_ERROR: Row = Row {
    statuses: &[],
    own: &[],
    hears: Hears::Only(&[Billing, Overloaded, ServerError, Format]),
    otherwise: ServerError,
};

/// Everything else without a row of its own, 409 among it.
const OTHER: Row = Row {
    statuses: &[],
    own: &[],
    hears: Hears::AllBut(ServerError),
    otherwise: Unclassified,
};

/// A 402 is about money, unless the words speak of a window that opens again by itself.
const PAYMENT: &[Class] = &[
    Class::of(
        Billing,
        "insufficient credit* | insufficient*balance | insufficient funds | credit balance* \
         | add*credits | add more | buy*credits | purchase*credits | more credits \
         | out of credits | top up | upgrade*plan | spending limit",
    ),
    Class::of(
        RateLimit,
        "try again | retry after | retry in | resets in | resets at | will reset \
         | rate limit* | too many requests | usage limit reached | daily usage limit \
         | weekly usage limit | monthly usage limit | daily spend limit | weekly spend limit \
         | monthly spend limit | organization*limit*reached | organisation*limit*reached \
         | organization*limit*exceeded | organisation*limit*exceeded \
         | organization usage limit | organisation usage limit | workspace*limit*reached \
         | workspace*limit*exceeded | workspace usage limit",
    ),
];

/// What `status` means with these words.
pub(super) fn meaning(status: u16, text: &Text) -> Verdict {
    let row = row(status);
    let own = row.own.iter().find(|class| class.has(text)).map(|class| class.outcome);
    let heard = || match row.hears {
        Hears::AllBut(deaf) => classes::first(text, |reason| reason != Some(deaf)),
        Hears::Only(reasons) => reasons
            .iter()
            .find_map(|one| classes::first(text, |reason| reason == Some(*one))),
    };
    match own.or_else(heard) {
        Some(Outcome::Is(verdict)) => verdict,
        Some(Outcome::LikeStatus(other)) if other != status => meaning(other, text),
        Some(Outcome::LikeStatus(_)) | None => Verdict::of(row.otherwise),
    }
}

/// What `status` means without any words.
pub(super) fn bare(status: u16) -> Reason {
    row(status).otherwise
}

/// Whether a web page with this status is an intermediary's, whose words mean nothing.
pub(super) fn speaks_for_itself(status: u16) -> bool {
    matches!(status, 408 | 499) || status >= 500
}

fn row(status: u16) -> &'static Row {
    let own = ROWS.iter().find(|row| row.statuses.contains(&status));
    own.unwrap_or(if status >= 500 { &OTHER_SERVER_ERROR } else { &OTHER })
}

//! Families of wordings, in the order in which they are tried; the first match wins (contract §5.3).

use understudy_messages::failure::Reason::{
    self, Auth, AuthPermanent, Billing, ContextOverflow, Format, ModelNotFound, NoErrorDetails, Overloaded, RateLimit,
    ServerError, SessionExpired, Timeout, TlsCertificate,
};

use super::pattern::Text;
use super::table::{Class, Outcome, Verdict};

/// The verdict of a content filter.
pub(super) const CONTENT_FILTER: Class = Class {
    outcome: Outcome::Is(Verdict::CONTENT_FILTER),
    says: "content management policy | content filter*policy | blocked by*content filter* \
         | content policy violation* | flagged as potentially violating \
         | flagged by*moderation* | requires moderation*flagged | violate*usage policies \
         | violate*usage policy | responsible ai policy | data inspection failed",
    unless: "",
};

/// Words of a limit that counts each minute.
const PER_MINUTE: &str = "per minute | per min | *perminute* | rpm | tpm | requests/min | tokens/min";

/// Words of a limit that takes a day or more to open again, or somebody's purse.
const LONG_WINDOW: &str = "daily* | weekly* | monthly* | per day | per week | per month | *perday* | *permonth* \
         | usage limit* | subscription | insufficient quota | budget";

const CLASSES: &[Class] = &[
    Class::of(
        TlsCertificate,
        "certificate verify failed | certificate has expired | self signed certificate \
         | unable to verify*certificate",
    ),
    Class::of(
        Format,
        "image dimension* | image exceeds* | image size* | image*too large | image*too small",
    ),
    Class::of(
        Format,
        "not support image* | not support*image input* | image input*not supported \
         | images are not supported | support image input | invalid transcript entry",
    ),
    CONTENT_FILTER,
    Class::of(
        SessionExpired,
        "session not found | session id*not found | session does not exist | session*expired \
         | session is invalid | invalid session* | no session found | conversation not found \
         | conversation id*not found | no conversation found | conversation does not exist \
         | conversation*expired",
    )
    .unless("session token* | sso"),
    Class::of(
        ModelNotFound,
        "unknown model* | no such model | invalid model* | not a valid model* \
         | model not found | model*not found | model*does not exist | model*not exist \
         | model is not supported | model is not available | model*no longer available \
         | model*was removed | model*been removed | model*deprecated | model*been retired \
         | model*decommissioned | model*deactivated | supported*model names are \
         | no endpoints found for | no endpoints for | not found error",
    )
    .unless("previous response* | tool*not found | file*not found"),
    Class::of(RateLimit, "workers*quota | daily free allocation"),
    Class::of(
        Overloaded,
        "model*not ready | model*is loading | model*currently loading",
    ),
    Class::of(
        ContextOverflow,
        "prompt is too long | prompt too long | prompt*exceeds* | input is too long \
         | input too long | input length*exceed* | request is too long | request too long \
         | request too large | request entity too large | payload too large \
         | maximum context length | maximum prompt length | context length exceeded \
         | context window exceeded | exceed*context window | exceed*context length \
         | exceed*context limit | exceed*context size | exceed*maximum number of tokens \
         | exceed*maximum context | longer than*context length | longer than*context window \
         | larger than*context | too many tokens | too many input tokens \
         | reduce the length of*",
    )
    .unless(
        "per minute | per min | tpm | rate limit* | reasoning is*required \
         | reasoning is mandatory | credit balance*",
    ),
    Class::of(
        Format,
        "previous response*not found | invalid previous response* \
         | tool call*without arguments | must alternate | invalid*signature*thinking \
         | thinking*signature*invalid | thinking*signature*expired \
         | tool use*without*tool result* | tool result*without*tool use* \
         | must be followed by tool messages | must be a response to a preceding message*",
    ),
    Class {
        outcome: Outcome::LikeStatus(402),
        says: "#402",
        unless: "",
    },
    Class::of(
        Billing,
        "insufficient credit* | insufficient quota | insufficient*balance \
         | insufficient funds | payment required | credit balance* | spend limit* \
         | spending limit* | spend cap | spending cap | out of credits | out of usage credits \
         | out of extra usage | out of usage | out of budget | budget has been exceeded \
         | budget exceeded | exceeded*max budget | not enough credit* | no credits left \
         | no credits remaining | no remaining credits | credits*exhausted | credits*depleted \
         | used all*credits | run out of*credits | plan does not include \
         | plan doesn't include | not included in your plan | billing hard limit \
         | billing*not active | check your billing | in arrears | add credits \
         | add more credits | purchase credits | purchase more credits | 余额不足 | 额度不足 | 欠费 \
         | 请充值",
    )
    .unless("^429"),
    Class::of(
        RateLimit,
        "daily limit* | weekly limit* | monthly limit* | daily quota | weekly quota \
         | monthly quota | daily usage* | weekly usage* | monthly usage*",
    ),
    Class::of(
        RateLimit,
        "rate limit* | ratelimit* | #429 | too many requests | too many concurrent* \
         | throttl* | quota exceeded | quota*exhausted | exceeded*quota | resource exhausted \
         | resource has been exhausted | tokens per minute | tokens per min | tokens per day \
         | requests per minute | requests per day | usage limit* | concurrency limit* \
         | concurrent request limit* | cooling down | in cooldown | no deployments available \
         | slow down",
    ),
    Class::of(
        Overloaded,
        "overloaded | high demand | high load | heavy load | at capacity \
         | insufficient capacity | service unavailable | service*unavailable \
         | temporarily unavailable | server is busy | servers are busy",
    ),
    Class::of(
        ServerError,
        "stop reason: error | finish reason: error | finish reason 'error' \
         | server had an error | upstream error | server error",
    )
    .unless("#500 | #501 | #502 | #503"),
    Class::of(
        AuthPermanent,
        "key*revoked | key*disabled | key*deactivated | reported as leaked | account*revoked \
         | account*disabled | account*deactivated | account*suspended | account*terminated \
         | user*deactivated | workspace*deactivated | organization*disabled \
         | organisation*disabled | refresh token*revoked | refresh token*invalid \
         | refresh token*expired | refresh token*already*used | oauth*refresh*failed \
         | oauth*refresh*refused | oauth*refresh*rejected | invalid grant \
         | not allowed for this organization | not allowed for this organisation \
         | not allowed for your organization",
    ),
    Class::of(
        Auth,
        "invalid api key* | incorrect api key* | invalid x api key | api key not valid \
         | api key*invalid | api key*expired | api key*not found | api key*missing \
         | missing api key | missing*api key | no api key* | api key is required \
         | api key required | missing authentication* | missing*authorization header \
         | invalid authentication* | invalid authorization* | invalid access token \
         | invalid bearer token | invalid auth token | authentication failed \
         | authentication error | authentication required | could not authenticate \
         | unauthorized | unauthenticated | not authenticated | access denied \
         | permission denied | insufficient permission* | insufficient scope* \
         | missing*scope* | access token*expired | token has expired | token is expired \
         | expired token | security token*invalid | security token*expired \
         | invalid credentials | credentials*expired | ^forbidden | #401 | #403",
    ),
    Class::of(
        Timeout,
        "unknown error occurred | bad gateway | gateway timeout | connection reset* \
         | connection refused | connection error | connection*closed | connection*aborted \
         | #500 | #501 | #502 | #503 | #504 | #520 | #521 | #522 | #523 | #524",
    ),
    Class {
        outcome: Outcome::Is(Verdict::PREFILL_REFUSED),
        says: "prefill* | pre fill* | must end with a user message | conversation must end with* | end with a user role \
             | expected last role user* | assistant*message must start with a thinking block",
        unless: "",
    },
    Class::of(
        Format,
        "match pattern | match the pattern | match*expected pattern | tool id* | conversation must* \
         | first message must* | expected*role",
    ),
    Class::of(NoErrorDetails, "=no error details in response"),
    Class::of(
        Timeout,
        "timed out | =timeout | request timeout | read timeout | connection timeout \
         | connect timeout | timeout error | timeout exceeded | timeout while* \
         | timeout after* | deadline exceeded | fetch failed | socket hang up \
         | stream ended before* | premature close | stop reason: abort | finish reason: abort \
         | reason: network error | reason: malformed response",
    ),
];

/// The first class that the text belongs to, of those whose reason is `heard` (`None`: a class without one).
pub(super) fn first(text: &Text, heard: impl Fn(Option<Reason>) -> bool) -> Option<Outcome> {
    let reason = |class: &Class| match class.outcome {
        Outcome::Is(verdict) => Some(verdict.reason),
        Outcome::LikeStatus(_) => None,
    };
    CLASSES
        .iter()
        .find(|class| heard(reason(class)) && class.has(text))
        .map(|class| class.outcome)
}

/// The limit opens again only after a day or more: retrying the same model is no use (contract §5.4).
pub(super) fn is_long_window(text: &Text) -> bool {
    text.says_any(LONG_WINDOW) && !text.says_any(PER_MINUTE)
}

/// One request that brings more tokens than a minute's allowance will never pass, however long one waits.
pub(super) fn is_request_size_ceiling(text: &Text) -> bool {
    // few errors name a limit: the rest is not looked for in the others
    let limit = text.number_after("limit");
    let exceeds = |limit| text.number_after("requested").is_some_and(|asked| asked > limit);
    limit.is_some_and(exceeds) && text.says_any(PER_MINUTE) && text.says("*token*")
}

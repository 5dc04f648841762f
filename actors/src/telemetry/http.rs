//! Handles by route.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram};

use super::{HTTP_DURATION, HTTP_IN_FLIGHT, HTTP_REQUESTS, OTHER, Series, Telemetry};

/// A route, as a label: the template, never the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// `POST /v1/chat/completions`
    ChatCompletions,
    /// `POST /v1/responses`
    Responses,
    /// `GET /v1/responses/{id}`
    Response,
    /// `GET /v1/responses/{id}/input_items`
    InputItems,
    /// `POST /v1/messages`
    Messages,
    /// `POST /v1/messages/count_tokens`
    CountTokens,
    /// `POST /v1/embeddings`
    Embeddings,
    /// `POST /v1/sessions/{id}/turns`
    SessionTurns,
    /// `GET /v1/sessions`
    Sessions,
    /// `GET /v1/sessions/{id}`
    Session,
    /// `GET /v1/models`
    Models,
    /// `GET /v1/models/{id}`
    Model,
    /// `GET /metrics`
    Metrics,
    /// `GET /livez`
    Livez,
    /// `GET /readyz`
    Readyz,
    /// `GET /startupz`
    Startupz,
    /// `GET /admin/v1/status`
    Status,
    /// `GET /admin/v1/providers`
    Providers,
    /// `POST /admin/v1/providers/{provider}/reset`
    ProviderReset,
    /// Anything else.
    Other,
}

/// Every route, in the order of the enum.
pub const ROUTES: [Route; 20] = [
    Route::ChatCompletions,
    Route::Responses,
    Route::Response,
    Route::InputItems,
    Route::Messages,
    Route::CountTokens,
    Route::Embeddings,
    Route::SessionTurns,
    Route::Sessions,
    Route::Session,
    Route::Models,
    Route::Model,
    Route::Metrics,
    Route::Livez,
    Route::Readyz,
    Route::Startupz,
    Route::Status,
    Route::Providers,
    Route::ProviderReset,
    Route::Other,
];

impl Route {
    /// The template.
    pub const fn as_label(self) -> &'static str {
        match self {
            Self::ChatCompletions => "/v1/chat/completions",
            Self::Responses => "/v1/responses",
            Self::Response => "/v1/responses/{id}",
            Self::InputItems => "/v1/responses/{id}/input_items",
            Self::Messages => "/v1/messages",
            Self::CountTokens => "/v1/messages/count_tokens",
            Self::Embeddings => "/v1/embeddings",
            Self::SessionTurns => "/v1/sessions/{id}/turns",
            Self::Sessions => "/v1/sessions",
            Self::Session => "/v1/sessions/{id}",
            Self::Models => "/v1/models",
            Self::Model => "/v1/models/{id}",
            Self::Metrics => "/metrics",
            Self::Livez => "/livez",
            Self::Readyz => "/readyz",
            Self::Startupz => "/startupz",
            Self::Status => "/admin/v1/status",
            Self::Providers => "/admin/v1/providers",
            Self::ProviderReset => "/admin/v1/providers/{provider}/reset",
            Self::Other => OTHER,
        }
    }

    /// The method that it answers.
    pub const fn method(self) -> &'static str {
        match self {
            Self::ChatCompletions
            | Self::Responses
            | Self::Messages
            | Self::CountTokens
            | Self::Embeddings
            | Self::SessionTurns
            | Self::ProviderReset => "POST",
            Self::Response
            | Self::InputItems
            | Self::Sessions
            | Self::Session
            | Self::Models
            | Self::Model
            | Self::Metrics
            | Self::Livez
            | Self::Readyz
            | Self::Startupz
            | Self::Status
            | Self::Providers
            | Self::Other => "GET",
        }
    }

    /// The route of a pattern that the router matched.
    pub fn from_pattern(pattern: Option<&str>) -> Self {
        match pattern {
            Some("/v1/models/{id:.*}") => Self::Model,
            Some(pattern) => ROUTES
                .into_iter()
                .find(|route| route.as_label() == pattern)
                .unwrap_or(Self::Other),
            None => Self::Other,
        }
    }
}

/// The handles by route.
pub struct HttpMetrics {
    ok: [Counter; ROUTES.len()],
    duration: [Histogram; ROUTES.len()],
    in_flight: [Gauge; ROUTES.len()],
}

impl HttpMetrics {
    pub(super) fn new(series: &Series) -> Self {
        Self {
            ok: ROUTES.map(|route| series.touched(&HTTP_REQUESTS, &labels(route, route.method(), "200"))),
            duration: ROUTES.map(|route| series.histogram(&HTTP_DURATION, &[("route", route.as_label())])),
            in_flight: ROUTES.map(|route| {
                let gauge = series.gauge(&HTTP_IN_FLIGHT, &[("route", route.as_label())]);
                gauge.increment(0.0);
                gauge
            }),
        }
    }

    /// A request on `route` has begun.
    pub fn began(&self, route: Route) {
        self.in_flight[route as usize].increment(1.0);
    }

    /// A request on `route` has ended.
    pub fn ended(&self, route: Route, duration: Duration) {
        self.in_flight[route as usize].decrement(1.0);
        self.duration[route as usize].record(duration);
    }
}

impl Telemetry {
    /// Counts an answered request. `method` and `code` come from closed sets of our own.
    pub fn http_request(&self, route: Route, method: &'static str, code: u16) {
        if code == 200 && method == route.method() {
            return self.http.ok[route as usize].increment(1);
        }
        let mut digits = [0; 3];
        let labels = labels(route, method, code_label(code, &mut digits));
        self.series.counter(&HTTP_REQUESTS, &labels).increment(1);
    }
}

fn labels<'a>(route: Route, method: &'a str, code: &'a str) -> [(&'static str, &'a str); 3] {
    [("route", route.as_label()), ("method", method), ("code", code)]
}

/// A status as text, without an allocation.
fn code_label(code: u16, digits: &mut [u8; 3]) -> &str {
    for (place, digit) in digits.iter_mut().enumerate() {
        let shifted = [code / 100, code / 10, code][place];
        *digit = b'0' + u8::try_from(shifted % 10).unwrap_or_default();
    }
    std::str::from_utf8(digits).unwrap_or(OTHER)
}

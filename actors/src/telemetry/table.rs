//! Every metric: name, kind, labels, help and buckets.

/// What kind of series a metric has.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts observations in these buckets.
    Histogram(&'static [f64]),
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// The full name, as scraped.
    pub name: &'static str,
    /// The kind of series.
    pub kind: Kind,
    /// The labels that its series carry, all of them.
    pub labels: &'static [&'static str],
    /// What it means, in one line.
    pub help: &'static str,
}

/// Durations of turns and upstream calls: the semantic conventions' set and two more, since calls over 82 s exist.
const DURATION: &[f64] = &[
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 163.84, 327.68,
];
/// Chunk times: the semantic conventions' set.
const CHUNK: &[f64] = &[
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
];
/// Time to the first token, as callers see it.
const FIRST_TOKEN: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 45.0,
    60.0,
];
/// Our own work and waits.
const INTERNAL: &[f64] = &[
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0,
];
/// Reloads: the contract's budgets of 5, 60 and 600 seconds are among them.
const RELOAD: &[f64] = &[
    0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0, 120.0, 300.0, 600.0,
];
/// Calls of plugins: from a quick handler to the longest deadline.
const HOOKS: &[f64] = &[
    0.000005, 0.00002, 0.0001, 0.0005, 0.002, 0.01, 0.05, 0.25, 1.0, 5.0, 15.0, 30.0, 60.0,
];
/// Token counts: powers of four.
const TOKENS: &[f64] = &[
    1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 16777216.0,
    67108864.0,
];
/// Reloads, drains, waits that providers ask for.
const WAITS: &[f64] = &[
    0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0, 120.0, 300.0, 600.0,
];
/// Upstream calls of one turn.
const ATTEMPTS: &[f64] = &[1.0, 2.0, 3.0, 4.0, 5.0, 8.0, 13.0];

macro_rules! table {
    ($($id:ident = $name:literal, $kind:expr, [$($label:literal),*], $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $id: Metric = Metric { name: $name, kind: $kind, labels: &[$($label),*], help: $help };)*
        /// Every metric that the gateway exports.
        pub const METRICS: &[Metric] = &[$($id),*];
    };
}

table! {
    OPERATION_DURATION = "gen_ai_client_operation_duration_seconds", Kind::Histogram(DURATION), ["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "error_type"], "One upstream attempt, from send to the last byte or the error";
    FIRST_CHUNK = "gen_ai_client_operation_time_to_first_chunk_seconds", Kind::Histogram(CHUNK), ["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"], "From send to the first content of a streaming attempt";
    TOKEN_USAGE = "gen_ai_client_token_usage", Kind::Histogram(TOKENS), ["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "gen_ai_token_type"], "Tokens of one attempt as the provider reported them";
    SERVER_FIRST_TOKEN = "gen_ai_server_time_to_first_token_seconds", Kind::Histogram(FIRST_TOKEN), ["gen_ai_operation_name", "gen_ai_request_model"], "From the request to the first content byte for the caller, failed attempts included";
    TOKENS_TOTAL = "understudy_tokens_total", Kind::Counter, ["provider", "model", "kind"], "Tokens as reported; cache kinds are part of input, reasoning of output";
    HTTP_REQUESTS = "understudy_http_requests_total", Kind::Counter, ["route", "method", "code"], "Requests answered on the API and admin listeners";
    HTTP_DURATION = "understudy_http_request_duration_seconds", Kind::Histogram(DURATION), ["route"], "From the request's head to the response's last byte";
    HTTP_IN_FLIGHT = "understudy_http_requests_in_flight", Kind::Gauge, ["route"], "Open requests, streams included";
    TURNS = "understudy_turns_total", Kind::Counter, ["agent", "outcome", "served_by"], "Turns that ended; outcome ok with served_by fallback is a rescued turn";
    TURNS_IN_FLIGHT = "understudy_turns_in_flight", Kind::Gauge, ["agent"], "Turns between acceptance and end, those that wait included";
    TURN_DURATION = "understudy_turn_duration_seconds", Kind::Histogram(DURATION), ["outcome", "served_by"], "From the request to the turn's end";
    TURN_QUEUE = "understudy_turn_queue_seconds", Kind::Histogram(INTERNAL), ["cause"], "Time a turn waited before work began";
    TURNS_WAITING = "understudy_turns_waiting", Kind::Gauge, ["bound"], "Turns that wait for a place, by whose places are taken";
    TURNS_SHED = "understudy_turns_shed_total", Kind::Counter, ["bound", "why"], "Turns that found no place, by whose places were taken and whether too many waited or they did for too long";
    OVERHEAD = "understudy_gateway_overhead_seconds", Kind::Histogram(INTERNAL), [], "A turn's time that was not spent waiting for a provider or a queue";
    ATTEMPTS_TOTAL = "understudy_model_attempts_total", Kind::Counter, ["provider", "model", "outcome", "reason"], "Upstream calls";
    TURN_ATTEMPTS = "understudy_turn_attempts", Kind::Histogram(ATTEMPTS), ["outcome"], "Upstream calls of one turn";
    FAILOVER = "understudy_failover_total", Kind::Counter, ["from_provider", "from_model", "to_provider", "to_model", "reason", "decision"], "Failed attempts and what was done about them; to is none when the client was told";
    FAILOVER_DELAY = "understudy_failover_delay_seconds", Kind::Histogram(DURATION), ["reason"], "From a turn's first failure to the first byte of the successor's answer";
    STREAMS = "understudy_streams_total", Kind::Counter, ["end"], "Streams by how they ended for the client";
    PARSE_FAULTS = "understudy_stream_parse_faults_total", Kind::Counter, ["provider"], "Frames that could not be read and were left out";
    CANDIDATE_STATE = "understudy_candidate_state", Kind::Gauge, ["provider", "model", "state"], "1 for the state that a candidate is in, 0 for the others";
    COOLDOWN_REMAINING = "understudy_candidate_cooldown_remaining_seconds", Kind::Gauge, ["provider", "model"], "How much longer a candidate is left alone; 0 when it is not";
    COOLDOWNS = "understudy_cooldowns_total", Kind::Counter, ["provider", "model", "reason"], "Rests that began, by the failure that began them";
    PROBES = "understudy_probes_total", Kind::Counter, ["provider", "model", "result"], "Candidates asked once after a rest, by what that has shown";
    RETRY_AFTER = "understudy_upstream_retry_after_seconds", Kind::Histogram(WAITS), ["provider"], "Waits that providers asked for";
    SKIPPED = "understudy_candidates_skipped_total", Kind::Counter, ["provider", "model", "reason"], "Candidates passed over without an attempt";
    UNCLASSIFIED = "understudy_unclassified_total", Kind::Counter, ["provider"], "Failures that no table knew";
    TERMINAL = "understudy_terminal_failures_total", Kind::Counter, ["kind", "reason"], "Turns that ended without a byte of an answer; reason is mixed when there were several";
    HOOK_CALLS = "understudy_hook_calls_total", Kind::Counter, ["hook", "plugin", "outcome"], "Handlers of plugins that were called, by what came of it";
    HOOK_DURATION = "understudy_hook_duration_seconds", Kind::Histogram(HOOKS), ["hook", "plugin"], "One call of a plugin's handler";
    HOOK_DROPPED = "understudy_hook_events_dropped_total", Kind::Counter, ["hook"], "Hook events that nobody waits for and that came while too many were at work";
    TOOL_CALLS = "understudy_tool_calls_total", Kind::Counter, ["tool", "outcome"], "Calls of tools that ran here or were kept from running; tool is other where only a model has named it";
    TOOL_DURATION = "understudy_tool_duration_seconds", Kind::Histogram(HOOKS), ["tool"], "One call of a tool that ran here";
    PLUGIN_INSTANCES = "understudy_plugin_instances", Kind::Gauge, ["plugin", "state"], "Instances of a plugin by state";
    FORCED_RETIREMENTS = "understudy_plugin_forced_retirements_total", Kind::Counter, ["plugin"], "Instances that did not let go in time: what they still answered was refused";
    CLEANUPS_PENDING = "understudy_plugin_cleanups_pending", Kind::Gauge, ["plugin"], "Instances that were retired by force and have not let go yet";
    PLUGIN_INFO = "understudy_plugin_info", Kind::Gauge, ["plugin", "version", "shape"], "1; the labels tell which plugins are loaded";
    CANON_EVALUATIONS = "understudy_canon_evaluations_total", Kind::Counter, ["result"], "Prompts that the canon was asked about, by what came of it";
    CANON_INJECTIONS = "understudy_canon_injections_total", Kind::Counter, ["reason"], "Prompts that the canon was added to, by why; repeat is one that an earlier reason had read";
    CANON_BYTES = "understudy_canon_injected_bytes_total", Kind::Counter, ["reason"], "Bytes that the canon added to prompts, by why";
    SESSIONS = "understudy_sessions", Kind::Gauge, ["state"], "Sessions: active have a turn in work, idle are in memory, passivated are in the store alone";
    SESSION_EVENTS = "understudy_session_events_total", Kind::Counter, ["event"], "What became of sessions; evicted left memory for want of room, expired were forgotten, displaced made room on the disk";
    SESSION_STORE = "understudy_session_store_duration_seconds", Kind::Histogram(INTERNAL), ["op"], "One operation of the store of sessions, waits for the disk included";
    SESSION_STORE_ERRORS = "understudy_session_store_errors_total", Kind::Counter, ["op"], "Operations of the store of sessions that failed, damaged sessions included";
    CATALOG_REFRESHES = "understudy_catalog_refreshes_total", Kind::Counter, ["provider", "outcome"], "Looks at a provider's list of models, by what came of them";
    ACTORS = "understudy_actors", Kind::Gauge, ["actor"], "Supervised actors that live, by kind";
    TASKS = "understudy_tasks", Kind::Gauge, [], "Tasks that run: turns, and what looks after the rest";
    RESTARTS = "understudy_actor_restarts_total", Kind::Counter, ["actor"], "Actors that died and were started again";
    EVENTS_DROPPED = "understudy_event_stream_dropped_total", Kind::Counter, ["sink"], "Events that a slow reader of the event tap missed";
    GENERATION = "understudy_registry_generation", Kind::Gauge, [], "The number of the serving generation";
    RELOADS = "understudy_registry_reloads_total", Kind::Counter, ["trigger", "outcome"], "Reloads by who asked and how they ended";
    RELOAD_DURATION = "understudy_registry_reload_duration_seconds", Kind::Histogram(RELOAD), ["outcome"], "From the request of a reload to its end";
    RELOADED_AT = "understudy_registry_last_reload_success_timestamp_seconds", Kind::Gauge, [], "When the last reload was applied or had nothing to change, in seconds since 1970; 0 when there was none";
    GENERATIONS = "understudy_registry_generations", Kind::Gauge, ["state"], "Generations by what they are there for";
    LEASES = "understudy_registry_leases", Kind::Gauge, ["generation", "kind"], "Turns and calls of plugins that hold a generation, by what that is there for";
    DRAIN_REMAINING = "understudy_registry_drain_remaining_seconds", Kind::Gauge, [], "How much longer a reload waits for those who hold what it replaces; 0 when none waits";
    DRAIN_BUDGET = "understudy_registry_drain_budget_seconds", Kind::Gauge, [], "How long it waits in all; 0 when none waits";
    ADMISSIONS = "understudy_registry_admissions_total", Kind::Counter, ["result"], "Turns at the gate; one that was held counts again when it is admitted or refused, unless its own deadline was over";
    ADMISSION_WAIT = "understudy_registry_admission_wait_seconds", Kind::Histogram(RELOAD), [], "How long a turn was held at the gate";
    RELOAD_SUCCEEDED = "understudy_registry_last_reload_successful", Kind::Gauge, [], "1 when the last reload was applied or had nothing to change";
    BUILD_INFO = "understudy_build_info", Kind::Gauge, ["version", "revision"], "1; the labels tell which build runs";
}

//! One plugin, the same behaviour, on every host.
//!
//! The plugin (`probe`) does what a call tells it to. Each host has its own way to be one; what the gateway sees has to be the
//! same. What only one host can do is in the file of that host.

#[cfg(test)]
mod behaviours;
#[cfg(test)]
mod docs;
#[cfg(test)]
mod engines;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod native;
#[cfg(test)]
mod process;
#[cfg(test)]
mod server;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod webhook;

/// The behaviours on one host.
macro_rules! on {
    ($module:ident, $host:expr, [$($behaviour:ident),* $(,)?]) => {
        #[cfg(test)]
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $behaviour() {
                    crate::behaviours::$behaviour($host).await;
                }
            )*
        }
    };
}

macro_rules! on_every_host {
    ($behaviours:tt) => {
        on!(on_native, crate::stage::Host::Native, $behaviours);
        on!(on_process, crate::stage::Host::Process, $behaviours);
        #[cfg(feature = "js")]
        on!(on_js, crate::stage::Host::Js, $behaviours);
        on!(on_webhook, crate::stage::Host::Webhook, $behaviours);
    };
}

on_every_host!([
    hooks_and_tools_are_registered_as_the_plugin_says,
    a_tool_call_is_blocked_changed_or_left_alone,
    every_kind_of_result_is_understood,
    the_conversation_is_seen_only_by_whoever_may,
    a_failure_is_said_on_one_line_and_the_next_call_works,
    an_answer_that_is_none_is_a_failure,
    a_hang_ends_with_its_wait_and_the_next_call_works,
    a_call_that_is_cancelled_ends_at_once,
    an_answer_that_comes_too_late_is_no_others,
    two_calls_are_at_work_at_the_same_time,
    a_policy_denies_changes_or_has_no_opinion,
    a_policy_whose_answer_is_not_understood_or_that_fails_has_not_allowed_anything,
    a_handler_with_authority_is_told_which_tools_are_left,
    a_tool_runs,
    a_service_is_started_and_stopped_and_says_when_it_cannot,
    a_route_answers_with_what_it_was_asked,
    a_crash_harms_nobody_else_and_is_recovered_from,
    a_stop_ends_what_is_at_work_and_is_final,
]);

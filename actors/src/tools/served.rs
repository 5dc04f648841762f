//! The tools of plugins, as the turns of a generation may use them.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use actix::Recipient;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use understudy_messages::clock::Clock;
use understudy_messages::hooks::HookContext;
use understudy_messages::ids::Name;
use understudy_messages::plugin::{Answering, CallError, CallTool};
use understudy_messages::tools::{ToolSpec, TurnTools};

use crate::hooks::LoadedPlugin;

/// How long a tool may take.
const DEADLINE: Duration = Duration::from_secs(60);

/// Tools and the instances that run them.
#[derive(Clone)]
pub struct Tools {
    specs: Vec<ToolSpec>,
    /// By plugin.
    ports: Arc<HashMap<Name, Recipient<CallTool>>>,
    clock: Clock,
}

impl Tools {
    /// The tools of `plugins`, in their order, and what was left out, by plugin: of two tools with one name the first stands.
    pub fn new(plugins: &[LoadedPlugin], clock: Clock) -> (Self, Vec<(Name, String)>) {
        let (mut specs, mut left_out) = (Vec::<ToolSpec>::new(), Vec::new());
        let mut ports = HashMap::new();
        for plugin in plugins {
            for tool in &plugin.registration.tools {
                let owner = specs.iter().find(|known| *known.name == *tool.name);
                let why = match (owner, &plugin.tools) {
                    (Some(owner), _) => format!("it belongs to {}", owner.plugin),
                    (None, None) => "the instance is not there".to_owned(),
                    (None, Some(port)) => {
                        ports.insert(plugin.id.clone(), port.clone());
                        specs.push(ToolSpec {
                            name: Name::from(&*tool.name),
                            plugin: plugin.id.clone(),
                            description: tool.description.clone(),
                            parameters: tool.parameters.clone(),
                            replay_safe: tool.replay_safe,
                        });
                        continue;
                    }
                };
                left_out.push((plugin.id.clone(), format!("tool {}: {why}", tool.name.escape_debug())));
            }
        }
        let ports = Arc::new(ports);
        (Self { specs, ports, clock }, left_out)
    }

    /// No tools.
    pub fn none(clock: Clock) -> Self {
        Self::new(&[], clock).0
    }

    /// Those of these plugins alone. Case makes no difference in ids.
    #[must_use]
    pub fn only(&self, plugins: &[Name]) -> Self {
        let listed = |name: &Name| plugins.iter().any(|plugin| plugin.eq_ignore_ascii_case(name));
        let mut tools = self.clone();
        tools.specs.retain(|tool| listed(&tool.plugin));
        tools
    }
}

impl TurnTools for Tools {
    fn all(&self) -> &[ToolSpec] {
        &self.specs
    }

    fn run<'a>(
        &'a self,
        tool: &'a ToolSpec,
        call_id: &'a str,
        params: Map<String, Value>,
        context: Arc<HookContext>,
    ) -> Answering<'a, Result<Value, CallError>> {
        Box::pin(async move {
            let port = self.ports.get(&tool.plugin).ok_or(CallError::Gone)?;
            // dropped when the wait ends, and with it the tool's work
            let cancel = CancellationToken::new();
            let _cancels = cancel.clone().drop_guard();
            let call = CallTool {
                tool: tool.name.to_string(),
                call_id: call_id.to_owned(),
                params,
                context,
                cancel,
            };
            let deadline = self.clock.now() + DEADLINE;
            match self.clock.timeout_at(deadline, port.send(call)).await {
                Ok(Ok(result)) => result,
                Ok(Err(_mailbox)) => Err(CallError::Gone),
                Err(_elapsed) => Err(CallError::TimedOut),
            }
        })
    }
}

impl fmt::Debug for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tools")
            .field("specs", &self.specs)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use actix::{Actor, Context, Handler, ResponseFuture};
    use understudy_plugins::{Registration, ToolRegistration};

    use super::*;
    use crate::hooks::Access;

    /// Runs `answers`, and nothing else ever ends.
    struct Port;

    impl Actor for Port {
        type Context = Context<Self>;
    }

    impl Handler<CallTool> for Port {
        type Result = ResponseFuture<Result<Value, CallError>>;

        fn handle(&mut self, call: CallTool, context: &mut Context<Self>) -> Self::Result {
            use actix::ActorContext;
            match &*call.tool {
                "answers" => Box::pin(async move { Ok(Value::Object(call.params)) }),
                "dies" => {
                    context.terminate();
                    Box::pin(std::future::ready(Err(CallError::failed("dying"))))
                }
                _ => Box::pin(async move {
                    call.cancel.cancelled().await;
                    Err(CallError::Cancelled)
                }),
            }
        }
    }

    fn plugin(id: &str, tools: &[&str], port: Option<Recipient<CallTool>>) -> LoadedPlugin {
        let tool = |name: &&str| ToolRegistration {
            name: (*name).to_owned(),
            ..ToolRegistration::default()
        };
        LoadedPlugin {
            id: id.into(),
            access: Access::default(),
            registration: Arc::new(Registration {
                tools: tools.iter().map(tool).collect(),
                ..Registration::default()
            }),
            port: None,
            tools: port,
        }
    }

    fn names(tools: &Tools) -> Vec<(&str, &str)> {
        tools.all().iter().map(|tool| (&*tool.plugin, &*tool.name)).collect()
    }

    #[actix::test]
    async fn of_two_tools_with_one_name_the_first_stands_and_its_owner_is_named() {
        let port = || Some(Port.start().recipient());
        let plugins = [plugin("a", &["read"], port()), plugin("b", &["read", "write"], port())];
        let (tools, left_out) = Tools::new(&plugins, Clock::movable());
        assert_eq!(names(&tools), [("a", "read"), ("b", "write")]);
        assert_eq!(left_out, [("b".into(), "tool read: it belongs to a".to_owned())]);
        assert_eq!(names(&tools.only(&["B".into()])), [("b", "write")]);
        let (tools, left_out) = Tools::new(&[plugin("c", &["read"], None)], Clock::movable());
        assert_eq!((names(&tools).len(), left_out.len()), (0, 1));
    }

    #[actix::test]
    async fn a_tool_answers_within_its_time_or_not_at_all() {
        let clock = Clock::movable();
        let plugins = [plugin(
            "a",
            &["answers", "hangs", "dies"],
            Some(Port.start().recipient()),
        )];
        let (tools, _) = Tools::new(&plugins, clock.clone());
        let specs = tools.all();
        let params: Map<String, Value> = [("a".to_owned(), Value::from(1))].into_iter().collect();
        let run = |place: usize| tools.run(&specs[place], "c", params.clone(), Arc::default());
        assert_eq!(run(0).await, Ok(Value::Object(params.clone())));
        let hanging = run(1);
        tokio::pin!(hanging);
        assert!(futures::poll!(&mut hanging).is_pending());
        clock.advance(DEADLINE);
        assert_eq!(hanging.await, Err(CallError::TimedOut));
        assert_eq!(run(2).await, Err(CallError::failed("dying")));
        assert_eq!(run(0).await, Err(CallError::Gone));
    }
}

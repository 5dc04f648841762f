//! A context engine outside of this process.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use understudy_messages::clock::Clock;
use understudy_messages::context::{CallEngine, EngineWork, assembled};
use understudy_plugins::Instance;
use understudy_plugins::process::{ProcessInstance, ProcessOptions};
use understudy_plugins::webhook::{WebhookInstance, WebhookOptions, http_client};

use crate::server::Server;

/// Answers whatever it is asked with one message that names the work.
const CHILD: &str = r#"
read line; echo '{"type":"registered","contextEngine":true}'
while read line; do
  call=$(echo "$line" | sed 's/.*"call":\([0-9]*\).*/\1/')
  work=$(echo "$line" | sed 's/.*"work":"\([a-z]*\)".*/\1/')
  echo "{\"type\":\"result\",\"call\":$call,\"result\":{\"messages\":[{\"role\":\"user\",\"content\":\"$work\"}]}}"
done"#;

async fn answers_what_it_is_asked(instance: &dyn Instance) {
    assert!(instance.registration().context_engine);
    let works = [
        EngineWork::Assemble {
            messages: Vec::new(),
            asked: Vec::new(),
            window: Some(8),
        },
        EngineWork::Commit { messages: Vec::new() },
        EngineWork::Dispose,
    ];
    for work in works {
        let told = json!([{ "role": "user", "content": work.as_label() }]);
        let call = CallEngine {
            work,
            context: Arc::default(),
            cancel: CancellationToken::new(),
        };
        let answer = instance.call_engine(call).await.expect("an answer");
        assert_eq!(assembled(answer).map(Value::from), Ok(told));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_process_may_have_one() {
    let command = ["sh", "-c", CHILD].map(str::to_owned).to_vec();
    let options = ProcessOptions::new("keeper".into(), PathBuf::from("."), command, Clock::real());
    let instance = ProcessInstance::load(options).await.expect("it registers");
    answers_what_it_is_asked(&instance).await;
    instance.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_may_have_one() {
    let server = Server::start("127.0.0.1:0", |request| async move {
        let asked: Value = serde_json::from_slice(&request.body).expect("JSON");
        assert_eq!((&asked["plugin"], asked["told"].is_object()), (&json!("keeper"), true));
        let answer = json!({ "messages": [{ "role": "user", "content": asked["work"] }] });
        Some((200, answer.to_string().into_bytes()))
    })
    .await;
    crate::webhook::install_tls();
    let declared = serde_json::from_value(json!({ "contextEngine": true })).expect("declared");
    let client = http_client().expect("a client");
    let options = WebhookOptions::new("keeper".into(), server.url(), declared, client, Clock::real());
    answers_what_it_is_asked(&WebhookInstance::load(options).expect("it registers")).await;
}

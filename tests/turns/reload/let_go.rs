//! What instances hold is free once they are gone.

use std::sync::Weak;

use super::*;

const RELOADS: usize = 20;

type Weights = Arc<Mutex<Vec<Weak<Vec<u8>>>>>;

/// Each instance holds a mebibyte.
struct Heavy(Weights);

impl NativePlugin for Heavy {
    fn id(&self) -> &str {
        "heavy"
    }

    fn register(&self, api: &mut NativeApi, _: &Value) -> Result<(), String> {
        let weight = Arc::new(vec![1_u8; 1 << 20]);
        self.0.lock().expect("whole").push(Arc::downgrade(&weight));
        let handler: AsyncHandler = Arc::new(move |_, _, _| {
            let weight = weight.clone();
            async move { weight.first().map(|_| HookResult::None).ok_or_else(String::new) }.boxed()
        });
        api.on("before_prompt_build", HookOptions::default(), handler);
        Ok(())
    }
}

#[tokio::test]
async fn of_a_plugin_that_was_replaced_again_and_again_one_instance_is_left_case_t36() {
    for folder in [None, Some(Folder::of_exclusive(&["heavy"]))] {
        let weights = Weights::default();
        let paths = folder.as_ref().map(Folder::paths).unwrap_or_default();
        let stage = hosting(vec![Arc::new(Heavy(weights.clone()))], &paths, plan(Duration::ZERO), "").await;
        for _ in 0..RELOADS {
            let reply = reload(&stage, &json!({ "plugins": ["heavy"] })).await;
            assert_eq!(reply.status, 200, "{}", reply.text());
            assert_eq!(stage.ask(&question(false)).await.status, 200);
        }
        let alive = || -> Vec<bool> {
            let weights = weights.lock().expect("whole");
            weights.iter().map(|weight| weight.strong_count() > 0).collect()
        };
        let mut expected = vec![false; RELOADS];
        expected.push(true);
        while alive() != expected {
            assert_eq!(stage.admin("/livez").await.status, 200);
        }
    }
}

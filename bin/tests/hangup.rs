//! The program itself: SIGHUP reads the configuration again, SIGTERM ends it.

#[cfg(test)]
mod program {
    use std::io::{BufRead, BufReader};
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};

    use serde_json::Value;

    /// A gateway in a process of its own. Dropped, it is killed.
    struct Served {
        child: Child,
        admin: String,
        folder: PathBuf,
    }

    impl Served {
        fn start(configuration: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("understudy-hangup-{}", std::process::id()));
            std::fs::create_dir_all(&folder).expect("a folder");
            let file = folder.join("understudy.yaml");
            std::fs::write(&file, configuration).expect("written");
            let mut child = Command::new(env!("CARGO_BIN_EXE_understudy"))
                .args(["serve", "--json", "--config"])
                .arg(&file)
                .env("UNDERSTUDY_STATE", folder.join("state"))
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .expect("started");
            let mut line = String::new();
            let out = child.stdout.as_mut().expect("piped");
            read_object(&mut BufReader::new(out), &mut line);
            let told: Value = serde_json::from_str(&line).expect("JSON");
            let admin = told["admin"].as_str().expect("an address").to_owned();
            Self { child, admin, folder }
        }

        fn file(&self) -> PathBuf {
            self.folder.join("understudy.yaml")
        }

        fn signal(&self, name: &str) {
            let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status();
            assert!(sent.expect("kill runs").success());
        }

        async fn get(&self, path: &str) -> reqwest::Response {
            let client = reqwest::Client::builder().no_proxy().build().expect("a client");
            client
                .get(format!("{}{path}", self.admin))
                .send()
                .await
                .expect("a response")
        }

        async fn serving(&self) -> String {
            let config = self.get("/admin/v1/config").await.bytes().await.expect("a body");
            let config: Value = serde_json::from_slice(&config).expect("JSON");
            config["serving"].as_str().expect("a revision").to_owned()
        }
    }

    impl Drop for Served {
        fn drop(&mut self) {
            let _gone = (self.child.kill(), self.child.wait());
            let _gone = std::fs::remove_dir_all(&self.folder);
        }
    }

    /// Reads lines until they are one JSON object.
    fn read_object(out: &mut impl BufRead, text: &mut String) {
        while serde_json::from_str::<Value>(text).is_err() {
            assert_ne!(out.read_line(text).expect("readable"), 0, "it ended: {text}");
        }
    }

    fn configuration(name: &str) -> String {
        format!(
            "listen: {{ api: \"127.0.0.1:0\", admin: \"127.0.0.1:0\" }}\n\
             providers: {{ {name}: {{ api: openai-chat, base_url: \"http://127.0.0.1:9\", api_key: k, models: [m] }} }}\n"
        )
    }

    fn stamp_of(file: &Path) -> std::time::SystemTime {
        std::fs::metadata(file)
            .and_then(|found| found.modified())
            .expect("a file")
    }

    #[tokio::test]
    async fn a_hangup_reads_the_configuration_again_and_a_termination_ends() {
        understudy::install_tls();
        let mut served = Served::start(&configuration("one"));
        let (first, written) = (served.serving().await, stamp_of(&served.file()));
        // the same length and time: whoever only looks at the file from outside sees no change
        std::fs::write(served.file(), configuration("two")).expect("written");
        let file = std::fs::File::options()
            .write(true)
            .open(served.file())
            .expect("a file");
        file.set_modified(written).expect("set");
        served.signal("-HUP");
        while served.serving().await == first {}
        let status = served.get("/admin/v1/status").await.text().await.expect("a body");
        assert!(status.contains("\"providers\":[\"two\"]"), "{status}");
        served.signal("-TERM");
        assert!(served.child.wait().expect("waited").success());
    }
}

//! One scan of a request's body, in each of the clients' formats.

use bytes::Bytes;
use criterion::{Criterion, Throughput};
use serde_json::json;
use understudy_messages::request::Endpoint;
use understudy_providers::wire;
use understudy_tests::bench::load::SENTENCE;

/// Sentences in one message: half a kilobyte.
const SENTENCES: usize = 5;

pub fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("scan of a request");
    for (size, messages) in [("1 KB", 2), ("64 KB", 132)] {
        for (format, endpoint) in [
            ("chat", Endpoint::Chat),
            ("Responses", Endpoint::Responses),
            ("Messages", Endpoint::Messages),
        ] {
            let body = request(endpoint, messages);
            group.throughput(Throughput::Bytes(body.len() as u64));
            group.bench_function(format!("{format}, {size}"), |bencher| {
                bencher.iter(|| wire::scan(endpoint, &body).expect("a good body"));
            });
        }
    }
    group.finish();
}

fn request(endpoint: Endpoint, messages: usize) -> Bytes {
    let messages: Vec<_> = (0..messages)
        .map(
            |n| json!({ "role": if n % 2 == 0 { "user" } else { "assistant" }, "content": SENTENCE.repeat(SENTENCES) }),
        )
        .collect();
    let (limit, said) = match endpoint {
        Endpoint::Responses => ("max_output_tokens", "input"),
        _ => ("max_tokens", "messages"),
    };
    let request = json!({ "model": "bench", "temperature": 0.7, limit: 256, said: messages, "stream": true });
    request.to_string().into()
}

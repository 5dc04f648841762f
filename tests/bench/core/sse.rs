//! A chat stream as it comes from a provider: cut into frames, read, judged.

use bytes::Bytes;
use criterion::{Criterion, Throughput};
use understudy_messages::settings::Api;
use understudy_providers::sse::{Frame, SseDecoder};
use understudy_providers::stream::{BodyEnd, StreamMachine};
use understudy_providers::wire::Decoder;
use understudy_tests::bench::upstream;

/// Chunks with content in the stream: some 200 KB.
const CHUNKS: usize = 1_000;
/// What one read of a socket brings at most.
const READ: usize = 16 << 10;

pub fn bench(criterion: &mut Criterion) {
    let with_usage = upstream::frames(CHUNKS, true);
    let (frames, body) = (with_usage.len(), Bytes::from(with_usage.concat()));
    let mut group = criterion.benchmark_group("stream of 1000 chunks");
    group.throughput(Throughput::Bytes(body.len() as u64));
    for (name, read) in [
        ("cut, in one read", body.len()),
        ("cut, in reads of 16 KB", READ),
        ("cut, byte by byte", 1),
    ] {
        let reads = reads(&body, read);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut seen = 0;
                cut(&reads, |_frame| seen += 1);
                assert_eq!(seen, frames);
            });
        });
    }
    let reads_with_usage = reads(&body, READ);
    group.bench_function("cut and read, 16 KB", |bencher| {
        bencher.iter(|| {
            let mut decoder = Decoder::new(Api::OpenaiChat);
            cut(&reads_with_usage, |frame| drop(decoder.pass(&frame)));
        });
    });
    let body = Bytes::from(upstream::frames(CHUNKS, false).concat());
    let reads_without = reads(&body, READ);
    for (name, reads, usage) in [
        ("cut, read and judged, 16 KB", &reads_with_usage, true),
        ("cut, read and judged, no report of tokens", &reads_without, false),
    ] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let (mut decoder, mut machine) = (Decoder::new(Api::OpenaiChat), StreamMachine::default());
                cut(reads, |frame| {
                    let (read, bytes) = decoder.pass(&frame);
                    machine.frame(read.signal, bytes.len());
                });
                assert_eq!(machine.end(BodyEnd::Clean), Ok(()));
                assert_eq!(machine.summary().usage.is_some(), usage);
            });
        });
    }
    group.finish();
}

fn reads(body: &Bytes, length: usize) -> Vec<Bytes> {
    let starts = (0..body.len()).step_by(length);
    starts
        .map(|start| body.slice(start..(start + length).min(body.len())))
        .collect()
}

fn cut(reads: &[Bytes], mut take: impl FnMut(Frame)) {
    let mut decoder = SseDecoder::default();
    for read in reads {
        decoder.push(read.clone());
        while let Some(frame) = decoder.next_frame().expect("no frame is too large") {
            take(frame);
        }
    }
    assert!(decoder.finish().is_none(), "the last frame is whole");
}

//! A body in every kind of cut that a network may make.

const ROUNDS: u64 = 8;

/// The reads of `body`: whole, byte by byte, and cut at random.
pub(crate) fn cuts(body: &[u8], seed: u64) -> Vec<(String, Vec<&[u8]>)> {
    let mut cuts = vec![("whole".to_owned(), vec![body])];
    cuts.push(("byte by byte".to_owned(), body.chunks(1).collect()));
    for round in 0..ROUNDS {
        let mut random = fastrand::Rng::with_seed(seed.wrapping_add(round));
        cuts.push((format!("random cuts, round {round}"), cut(body, &mut random)));
    }
    cuts
}

/// Beginnings of `body` that lack at least a byte that is not white space.
pub(crate) fn beginnings(body: &[u8], seed: u64) -> impl Iterator<Item = &[u8]> {
    let mut random = fastrand::Rng::with_seed(seed);
    let len = body.trim_ascii_end().len();
    (0..ROUNDS * ROUNDS)
        .filter(move |_| len > 0)
        .map(move |_| &body[..random.usize(..len)])
}

/// Pieces of up to 40 bytes, now and then far larger.
fn cut<'a>(mut body: &'a [u8], random: &mut fastrand::Rng) -> Vec<&'a [u8]> {
    let mut reads = Vec::new();
    while !body.is_empty() {
        let most = if random.u8(..8) == 0 { 4000 } else { 40 };
        let (read, rest) = body.split_at(random.usize(1..=most).min(body.len()));
        reads.push(read);
        body = rest;
    }
    reads
}

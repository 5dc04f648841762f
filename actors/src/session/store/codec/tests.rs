use proptest::prelude::*;

use super::*;

fn some_header() -> Header {
    Header {
        revision: 7,
        agent: Some("support".into()),
        pinned: None,
        last_model: Some(ModelRef::new("openrouter", "meta/llama")),
        fallback: Some(FallbackNotice {
            selected: "a/m".to_owned(),
            active: "b/m".to_owned(),
            cleared: false,
            text: "↪️".to_owned(),
        }),
        turns: 9,
        created: time(1_700_000_000_123),
        updated: time(1_700_000_060_456),
        first: 2,
        next: 9,
        slots: vec![("canon:/w".into(), r#"{"turns":9}"#.to_owned())],
    }
}

fn name() -> impl Strategy<Value = Option<Name>> {
    proptest::option::of(".{0,20}".prop_map(Name::from))
}

prop_compose! {
    fn headers()(
        numbers in any::<[u32; 5]>(),
        (agent, pinned) in (name(), name()),
        model in proptest::option::of((".{1,9}", ".{1,9}")),
        slots in proptest::collection::vec((".{1,9}", ".{0,50}"), 0..4),
    ) -> Header {
        let [revision, turns, millis, first, kept] = numbers;
        let (created, updated) = (time(millis.into()), time(u64::from(millis) * 2));
        let (first, next) = (first.into(), u64::from(first) + u64::from(kept));
        Header {
            revision: revision.into(), agent, pinned, turns: turns.into(), created, updated, first, next, fallback: None,
            last_model: model.map(|(provider, model)| ModelRef::new(provider, model)),
            slots: slots.into_iter().map(|(name, text)| (name.into(), text)).collect(),
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_as_the_same(
        header in headers(),
        said in proptest::collection::vec(".{0,40}", 0..5),
        key in proptest::collection::vec(any::<u8>(), 1..30),
        number in any::<u64>(),
    ) {
        let record = written_header(&key, &header).expect("JSON");
        prop_assert_eq!(stamp(&record), Some((header.revision, minute(header.updated))));
        prop_assert_eq!(super::header(&key, &record), Ok(header));
        let said: Vec<Arc<str>> = said.into_iter().map(Arc::from).collect();
        let record = written_turn(&key, number, &said);
        prop_assert_eq!(turn(&key, number, &record), Ok(said));
    }

    #[test]
    fn no_bytes_make_a_reader_panic(record in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = (header(b"k", &record), turn(b"k", 1, &record), stamp(&record));
    }

    #[test]
    fn a_record_that_was_changed_anywhere_is_told_from_a_good_one(place in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let good = written_header(b"key", &some_header()).expect("JSON");
        let mut record = good.clone();
        let place = place.index(record.len());
        record[place] ^= 1 << bit;
        prop_assert_eq!(header(b"key", &record), Err(Unreadable::Damaged));
        prop_assert_eq!(header(b"key", &good[..place]), Err(Unreadable::Damaged));
    }
}

#[test]
fn a_record_in_the_place_of_another_is_damaged() {
    let said = [Arc::from("hi")];
    let record = written_turn(b"key", 3, &said);
    assert_eq!(turn(b"key", 4, &record), Err(Unreadable::Damaged));
    assert_eq!(turn(b"kex", 3, &record), Err(Unreadable::Damaged));
    let header_record = written_header(b"key", &some_header()).expect("JSON");
    assert_eq!(header(b"other", &header_record), Err(Unreadable::Damaged));
    assert_eq!(header(b"key", &header_record), Ok(some_header()));
}

#[test]
fn a_record_of_a_later_version_is_named_and_none_that_is_damaged() {
    let mut record = written_turn(b"key", 3, &[]);
    record[0] = 2;
    let sum = checksum(2, &[b"key", &3_u64.to_le_bytes()], &[]);
    record[1..ENVELOPE].copy_from_slice(&sum.to_le_bytes());
    assert_eq!(turn(b"key", 3, &record), Err(Unreadable::Newer(2)));
}

#[test]
fn a_field_that_a_later_version_adds_is_passed_over() {
    let good = written_header(b"key", &some_header()).expect("JSON");
    let mut body = good[ENVELOPE..good.len() - 1].to_vec();
    body.extend_from_slice(br#","later":[1]}"#);
    assert_eq!(header(b"key", &sealed(&[b"key"], &body)), Ok(some_header()));
}

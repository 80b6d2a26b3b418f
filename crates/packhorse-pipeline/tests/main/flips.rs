use std::collections::BTreeMap;
use std::fs;

use packhorse_core::{Container, Extent, IndexView};
use packhorse_pipeline::{pack, verify};
use packhorse_shard::Shard;
use packhorse_testkit::{fill, flip, read};

use super::{Place, small};

/// A generator whose sequence is the same in every run.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

#[test]
fn two_thousand_flipped_bits_are_all_reported() {
    let place = Place::new(&fill(40, 3000));
    let options = packhorse_pipeline::PackOptions {
        source: Some(packhorse_source::SourceOptions::default()),
        ..small()
    };
    pack(&place.source(), place.at("pack"), &options, &()).unwrap();
    let root = place.at("pack");
    let files: Vec<_> = read(&root, &[]).into_iter().filter(|(_, bytes)| !bytes.is_empty()).collect();
    let total: u64 = files.iter().map(|(_, bytes)| bytes.len() as u64 * 8).sum();
    let mut draw = Draw(1);
    let mut in_payload = 0;
    let mut by_folder: BTreeMap<String, u32> = BTreeMap::new();
    for round in 0..2000 {
        let mut bit = draw.below(total);
        let (name, good) = files
            .iter()
            .find(|(_, bytes)| {
                let here = bit < bytes.len() as u64 * 8;
                if !here {
                    bit -= bytes.len() as u64 * 8;
                }
                here
            })
            .unwrap();
        let name = String::from_utf8(name.clone()).unwrap();
        flip(&root.join(&name), bit);
        let faults = verify(&root, Some(1), &()).map(|verified| verified.faults).unwrap_or_else(|error| {
            panic!("round {round}: {name}: bit {bit}: could not be verified: {error}");
        });
        assert!(!faults.is_empty(), "round {round}: {name}: bit {bit} was not seen");
        if let Some(key) = sample_at(&name, good, bit / 8) {
            assert!(
                faults
                    .first
                    .iter()
                    .any(|fault| fault.key.as_ref().is_some_and(|found| found.to_string() == key)),
                "round {round}: {name}: bit {bit}: {key} is not named: {faults:?}"
            );
            in_payload += 1;
        }
        *by_folder.entry(name.split('/').next().unwrap().to_owned()).or_default() += 1;
        fs::write(root.join(&name), good).unwrap();
    }
    assert!(in_payload > 500, "{in_payload}");
    assert!(by_folder.len() >= 5, "{by_folder:?}");
    assert!(verify(&root, None, &()).unwrap().faults.is_empty());
}

/// Returns the sample whose payload has this byte of a shard.
fn sample_at(name: &str, bytes: &[u8], at: u64) -> Option<String> {
    let layout =
        name.ends_with(".phs").then(|| Shard::default().layout(bytes, bytes.len() as u64).unwrap())?;
    let index = IndexView::new(&bytes[layout.index as usize..][..layout.index_len as usize]).unwrap();
    (0..layout.extent_count).find_map(|j| {
        let extent = Extent::read(&bytes[layout.extents as usize..], j).unwrap();
        let here = (extent.offset..extent.offset + extent.stored).contains(&at);
        here.then(|| index.row(j).unwrap().key.to_string())
    })
}

use std::collections::BTreeMap;

use packhorse_core::Digest;
use packhorse_image::{Decoded, Format};
use packhorse_reader::Pack;
use rayon::prelude::*;

use super::{Check, StatOptions, file_name, image_fields};
use crate::error::Result;
use crate::progress::{Phase, Progress};
use crate::report::{Findings, merge};
use crate::schedule::{default_threads, pool};

/// What the images of a pack are.
#[derive(Debug, Default)]
pub struct Images {
    /// Files that were looked at: the one of each sample, or those with an image's extension.
    pub files: u64,
    /// Files whose content is no known image.
    pub others: u64,
    /// Images and their bytes by format.
    pub formats: BTreeMap<Format, (u64, u64)>,
    /// Images by Pillow's word for their colours.
    pub modes: BTreeMap<&'static str, u64>,
    /// Images by EXIF orientation; those without one are not counted.
    pub orientations: BTreeMap<u8, u64>,
    /// Images by their longer side: up to so many pixels, a power of two or half as much again, and more than the step before.
    pub sides: BTreeMap<u32, u64>,
    /// Least and greatest width, and height, in pixels as stored.
    pub widths: Option<(u32, u32)>,
    /// Least and greatest height.
    pub heights: Option<(u32, u32)>,
    /// What heads and tails show, by kind.
    pub findings: Findings,
    /// Images that were decoded whole.
    pub decoded: u64,
    /// Images that cannot be decoded.
    pub broken: u64,
    /// The first of them, in key order.
    pub listed: Vec<Unreadable>,
    /// Images of formats that are not decoded here.
    pub not_decoded: BTreeMap<Format, u64>,
}

/// An image that cannot be decoded.
#[derive(Debug)]
pub struct Unreadable {
    /// The number of its sample.
    pub rank: u64,
    /// Key, and field where there are several, as text.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// What the decoder says.
    pub what: String,
}

/// Looks at all images of a pack.
pub(super) fn look(pack: &Pack, options: &StatOptions, progress: &dyn Progress) -> Result<Images> {
    progress.begin(Phase::Look, Some(pack.len()), Some(pack.manifest().bytes()));
    let workers = pool("look", options.threads.unwrap_or_else(default_threads))?;
    let one = |mut images: Images, rank: usize| {
        images.add(pack, rank as u64, options, progress)?;
        Ok(images)
    };
    let both = |mut a: Images, b: Images| {
        a.merge(b, options.listed);
        Ok(a)
    };
    workers.install(|| {
        (0..usize::try_from(pack.len()).unwrap_or(usize::MAX))
            .into_par_iter()
            .with_min_len(16)
            .try_fold(Images::default, one)
            .try_reduce(Images::default, both)
    })
}

impl Images {
    fn add(&mut self, pack: &Pack, rank: u64, options: &StatOptions, progress: &dyn Progress) -> Result<()> {
        let sample = pack.get(rank)?;
        let key = sample.key()?.to_key();
        let fields = sample.fields()?;
        let mut read = 0;
        for n in image_fields(fields.iter().map(|field| field.name)) {
            let field = fields[n];
            let bytes = sample.field(field.name)?;
            read += bytes.len() as u64;
            self.files += 1;
            let name = file_name(&key, field.name);
            let seen = packhorse_image::inspect_bytes(name.as_bytes(), &bytes);
            for finding in &seen.findings {
                self.findings.entry(finding.to_string()).or_default().add(&name);
            }
            match seen.format {
                None => self.others += 1,
                Some(format) => self.image(format, &bytes),
            }
            if options.check == Check::Decode && (seen.format.is_some() || !seen.findings.is_empty()) {
                let what = match packhorse_image::decode(&bytes) {
                    Decoded::Good => {
                        self.decoded += 1;
                        continue;
                    }
                    Decoded::Unsupported(Some(format)) => {
                        *self.not_decoded.entry(format).or_default() += 1;
                        continue;
                    }
                    _ if Digest::of(&bytes) != field.sha256 => {
                        "the pack is damaged here, not the image: `packhorse repair PACK --source SRC`".into()
                    }
                    Decoded::Unsupported(None) => "not an image".into(),
                    Decoded::Broken(what) => what,
                };
                self.broken(rank, name, bytes.len(), what, options);
            }
        }
        progress.advance(1, read);
        Ok(())
    }

    fn image(&mut self, format: Format, bytes: &[u8]) {
        let count = self.formats.entry(format).or_default();
        *count = (count.0 + 1, count.1 + bytes.len() as u64);
        let Some(facts) = packhorse_image::facts(bytes) else { return };
        *self.modes.entry(facts.mode.as_str()).or_default() += 1;
        if let Some(orientation) = facts.orientation {
            *self.orientations.entry(orientation).or_default() += 1;
        }
        let side = facts.width.max(facts.height);
        let above = side.checked_next_power_of_two().unwrap_or(u32::MAX);
        *self.sides.entry(if side <= above / 4 * 3 { above / 4 * 3 } else { above }).or_default() += 1;
        self.widths = Some(wider(self.widths, (facts.width, facts.width)));
        self.heights = Some(wider(self.heights, (facts.height, facts.height)));
    }

    fn broken(&mut self, rank: u64, name: String, bytes: usize, what: String, options: &StatOptions) {
        self.broken += 1;
        if self.listed.len() < options.listed {
            self.listed.push(Unreadable { rank, name, bytes: bytes as u64, what });
        }
    }

    /// Adds what was seen in samples that follow.
    fn merge(&mut self, after: Self, listed: usize) {
        self.files += after.files;
        self.others += after.others;
        for (format, (count, bytes)) in after.formats {
            let all = self.formats.entry(format).or_default();
            *all = (all.0 + count, all.1 + bytes);
        }
        add(&mut self.modes, after.modes);
        add(&mut self.orientations, after.orientations);
        add(&mut self.sides, after.sides);
        add(&mut self.not_decoded, after.not_decoded);
        self.widths = after.widths.map(|range| wider(self.widths, range)).or(self.widths);
        self.heights = after.heights.map(|range| wider(self.heights, range)).or(self.heights);
        merge(&mut self.findings, after.findings);
        self.decoded += after.decoded;
        self.broken += after.broken;
        self.listed.extend(after.listed);
        self.listed.truncate(listed);
    }
}

fn add<K: Ord>(all: &mut BTreeMap<K, u64>, more: BTreeMap<K, u64>) {
    for (key, count) in more {
        *all.entry(key).or_default() += count;
    }
}

fn wider(known: Option<(u32, u32)>, (low, high): (u32, u32)) -> (u32, u32) {
    known.map_or((low, high), |(least, most)| (least.min(low), most.max(high)))
}

use std::collections::BTreeMap;

use packhorse_core::Digest;
use packhorse_image::Thumbnail;
use packhorse_reader::Pack;
use rayon::prelude::*;

use super::{Label, Stat, StatOptions, each_row, image_fields};
use crate::error::Result;
use crate::schedule::{default_threads, pool};

/// A few images of each class.
#[derive(Debug)]
pub struct Sheet {
    /// The classes, in order, and what they show.
    pub classes: Vec<(Label, Vec<SheetImage>)>,
    /// Classes for which there was no room.
    pub left_out: usize,
}

/// An image of a contact sheet.
#[derive(Debug)]
pub struct SheetImage {
    /// The sample's key, as text.
    pub key: String,
    /// The image made small; `None` where it cannot be decoded.
    pub thumbnail: Option<Thumbnail>,
}

/// The most images on a sheet: a page with more is of no use.
const MOST: usize = 2000;
/// The longer side of a thumbnail, in pixels.
const SIDE: u32 = 96;

/// Draws images by a hash of their keys, so that a sheet stays mostly the same from version to version.
pub(super) fn make(pack: &Pack, stat: &Stat, options: &StatOptions) -> Result<Sheet> {
    let all = stat.classes.len().max(1);
    let shown = all.min((MOST / options.sheet).max(1));
    let mut drawn: BTreeMap<Label, Vec<(Digest, u64)>> =
        stat.classes.keys().take(shown).map(|class| (class.clone(), Vec::new())).collect();
    if stat.classes.is_empty() {
        drawn.insert(None, Vec::new());
    }
    let mut rank = 0;
    for segment in &pack.manifest().segments {
        each_row(pack, segment, &mut |row| {
            let class: Label = row.string("class").map(Into::into);
            if let Some(ranks) = drawn.get_mut(&class) {
                let hash = Digest::of(row.key.as_bytes());
                let at = ranks.partition_point(|(known, _)| *known < hash);
                if at < options.sheet {
                    ranks.insert(at, (hash, rank));
                    ranks.truncate(options.sheet);
                }
            }
            rank += 1;
            Ok(())
        })?;
    }
    let workers = pool("look", options.threads.unwrap_or_else(default_threads))?;
    let classes = workers.install(|| {
        let images = |(class, ranks): (_, Vec<(Digest, u64)>)| {
            let images = ranks.par_iter().map(|(_, rank)| image(pack, *rank)).collect::<Result<Vec<_>>>()?;
            Ok((class, images))
        };
        drawn.into_iter().collect::<Vec<_>>().into_par_iter().map(images).collect::<Result<Vec<_>>>()
    })?;
    Ok(Sheet { classes, left_out: all - shown })
}

fn image(pack: &Pack, rank: u64) -> Result<SheetImage> {
    let sample = pack.get(rank)?;
    let fields = sample.fields()?;
    let field = image_fields(fields.iter().map(|field| field.name)).next().and_then(|n| fields.get(n));
    let thumbnail = match field {
        Some(field) => packhorse_image::thumbnail(&sample.field(field.name)?, SIDE),
        None => None,
    };
    Ok(SheetImage { key: sample.key()?.to_string(), thumbnail })
}

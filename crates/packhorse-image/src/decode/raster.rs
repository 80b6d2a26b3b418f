//! WebP and compressed TIFF: decoded for real.

use super::{CUT, Fault, check_size};
use crate::bytes::le;
use crate::{Format, facts};
use image::codecs::{tiff::TiffDecoder, webp::WebPDecoder};
use image::{ImageDecoder, ImageError, ImageResult, Limits};
use std::io::Cursor;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most memory that the pixels may take, in bytes.
pub(crate) const MOST_MEMORY: u64 = 1 << 31;

/// Images whose pixels take more than this are decoded one at a time, whatever the threads.
const LARGE: u64 = 64 << 20;
static ONE_LARGE: Mutex<()> = Mutex::new(());

/// Waits until pixels that take so many bytes may be held; lets others wait until it is dropped.
pub(crate) fn room_for(bytes: u64) -> Option<MutexGuard<'static, ()>> {
    (bytes > LARGE).then(|| ONE_LARGE.lock().unwrap_or_else(PoisonError::into_inner))
}

pub(super) fn check(bytes: &[u8], format: Format) -> Result<(), Fault> {
    if let Some(facts) = facts(bytes) {
        check_size(u64::from(facts.width), u64::from(facts.height))?;
    }
    let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if format == Format::WebP && le(bytes, 4, 4).is_none_or(|size| size.saturating_add(8) > len) {
        return Err(CUT.into());
    }
    let result = match format {
        Format::Tiff => TiffDecoder::new(Cursor::new(bytes)).and_then(read),
        _ => WebPDecoder::new(Cursor::new(bytes)).and_then(read),
    };
    result.map_err(|error| match error {
        ImageError::Unsupported(_) => Fault::Unsupported,
        error => Fault::Broken(error.to_string()),
    })
}

fn read(mut decoder: impl ImageDecoder) -> ImageResult<()> {
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(MOST_MEMORY);
    limits.reserve(decoder.total_bytes())?;
    decoder.set_limits(limits)?;
    let _room = room_for(decoder.total_bytes());
    let mut pixels = vec![0; usize::try_from(decoder.total_bytes()).unwrap_or(usize::MAX)];
    decoder.read_image(&mut pixels)
}

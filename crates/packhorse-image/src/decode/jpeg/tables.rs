//! The frame, the scans and the tables of a JPEG, with what libjpeg demands of them.

use super::huffman::Huffman;
use crate::bytes::{be, slice};

/// The tables defined so far.
#[derive(Default)]
pub(super) struct Tables {
    /// Tables 0 to 3 for the first coefficient of a block, then 0 to 3 for the others.
    huffman: [Option<Huffman>; 8],
    quantization: [bool; 4],
    /// MCUs between restart markers; 0 without.
    pub(super) restart: u64,
}

impl Tables {
    pub(super) fn read_huffman(&mut self, mut payload: &[u8]) -> Option<()> {
        while !payload.is_empty() {
            let index = match be(payload, 0, 1)? {
                index @ 0..=3 => index,
                index @ 0x10..=0x13 => index - 12,
                _ => return None,
            };
            let counts = slice(payload, 1, 16)?;
            let total = counts.iter().map(|count| usize::from(*count)).sum();
            if total > 256 {
                return None;
            }
            let symbols = slice(payload, 17, total)?;
            *self.huffman.get_mut(usize::try_from(index).ok()?)? = Some(Huffman::new(counts, symbols));
            payload = payload.get(17 + total..)?;
        }
        Some(())
    }

    pub(super) fn read_quantization(&mut self, mut payload: &[u8]) -> Option<()> {
        while let Some(kind) = payload.first() {
            *self.quantization.get_mut(usize::from(kind & 15))? = true;
            payload = payload.get(if kind >> 4 == 0 { 65 } else { 129 }..)?;
        }
        Some(())
    }

    /// The table for the first coefficient of a block.
    pub(super) fn first(&self, index: usize) -> Option<&Huffman> {
        self.huffman.get(..4)?.get(index)?.as_ref()
    }

    /// The table for the other coefficients of a block.
    pub(super) fn others(&self, index: usize) -> Option<&Huffman> {
        self.huffman.get(4..)?.get(index)?.as_ref()
    }

    /// Whether a table is there, or is one of the two that libjpeg has for files that leave out the usual ones.
    fn is_usable(table: Option<&Huffman>, index: usize, first: bool, usual: bool) -> bool {
        table.map_or(usual && index < 2, |table| table.is_valid(first))
    }
}

struct Component {
    id: u8,
    across: u64,
    down: u64,
    quantization: u8,
    /// Whether a scan had the component, and with it the table.
    seen: bool,
}

/// A frame and its components.
pub(super) struct Frame {
    pub(super) width: u64,
    pub(super) height: u64,
    progressive: bool,
    components: Vec<Component>,
    /// Whether the components are spread over scans, so that the pixels are known only behind the last.
    pub(super) has_more_scans: bool,
}

/// What a scan holds if it holds all of the frame's components.
pub(super) struct Scan {
    /// Units that the coded data consists of.
    pub(super) units: u64,
    /// The tables of each block of a unit, for the first coefficient and the others.
    pub(super) blocks: Vec<(usize, usize)>,
}

impl Frame {
    pub(super) fn read(payload: &[u8], progressive: bool) -> Option<Self> {
        let (bits, count) = (be(payload, 0, 1)?, be(payload, 5, 1)?);
        let (height, width) = (be(payload, 1, 2)?, be(payload, 3, 2)?);
        let entries = payload.get(6..)?;
        let fits = bits == 8 && matches!(count, 1 | 3 | 4) && width.max(height) <= 65_500;
        if !fits || u64::try_from(entries.len()).ok()? != count * 3 {
            return None;
        }
        let component = |entry: &[u8]| {
            let [id, factors, quantization] = *entry else { return None };
            let (across, down) = (u64::from(factors >> 4), u64::from(factors & 15));
            let fits = (1..=4).contains(&across) && (1..=4).contains(&down);
            fits.then_some(Component { id, across, down, quantization, seen: false })
        };
        let components: Vec<Component> = entries.chunks_exact(3).map(component).collect::<Option<_>>()?;
        let frame = Self { width, height, progressive, components, has_more_scans: progressive };
        let (across, down) = frame.most_samples();
        let even = |component: &Component| across % component.across == 0 && down % component.down == 0;
        frame.components.iter().all(even).then_some(frame)
    }

    fn most_samples(&self) -> (u64, u64) {
        let most = |of: fn(&Component) -> u64| self.components.iter().map(of).max().unwrap_or(1);
        (most(|component| component.across), most(|component| component.down))
    }

    /// Takes the header of a scan; the first tells whether there are more.
    pub(super) fn begin_scan(&mut self, payload: &[u8], tables: &Tables, first: bool) -> Option<Scan> {
        let count = usize::from(*payload.first()?);
        let entries = payload.get(1..)?;
        if !(1..=4).contains(&count) || entries.len() != count * 2 + 3 {
            return None;
        }
        if first {
            self.has_more_scans |= count < self.components.len();
        }
        let [from, to, approximation] = *entries.get(count * 2..)? else { return None };
        if self.progressive && !is_progression(from, to, approximation, count) {
            return None;
        }
        let (across, down) = self.most_samples();
        let mut chosen = Vec::new();
        let mut blocks = Vec::new();
        for entry in entries.get(..count * 2)?.chunks_exact(2) {
            let [id, which] = *entry else { return None };
            let found = (0..)
                .zip(&mut self.components)
                .find(|(index, other)| other.id == id && !chosen.contains(index));
            let (index, component) = found?;
            chosen.push(index);
            if !component.seen && !*tables.quantization.get(usize::from(component.quantization))? {
                return None;
            }
            component.seen = true;
            let (dc, ac) = (usize::from(which >> 4), usize::from(which & 15));
            let wants_dc = !self.progressive || (from == 0 && approximation >> 4 == 0);
            let wants_ac = if self.progressive { from > 0 } else { true };
            let usual = !self.progressive;
            let dc_fine = !wants_dc || Tables::is_usable(tables.first(dc), dc, true, usual);
            let ac_fine = !wants_ac || Tables::is_usable(tables.others(ac), ac, false, usual);
            if !dc_fine || !ac_fine {
                return None;
            }
            let samples = if count == 1 { 1 } else { component.across * component.down };
            blocks.extend((0..samples).map(|_| (dc, ac)));
        }
        if blocks.len() > 10 {
            return None;
        }
        let (across, down) = if count == 1 { (1, 1) } else { (across, down) };
        let units = self.width.div_ceil(8 * across) * self.height.div_ceil(8 * down);
        Some(Scan { units, blocks })
    }
}

/// Whether the coefficients of a progressive scan, and its bits, are in the bounds of libjpeg.
fn is_progression(from: u8, to: u8, approximation: u8, components: usize) -> bool {
    let (high, low) = (approximation >> 4, approximation & 15);
    let spectrum = if from == 0 { to == 0 } else { to >= from && to <= 63 && components == 1 };
    let refines = high == 0 || low.checked_add(1) == Some(high);
    spectrum && refines && low <= 13
}

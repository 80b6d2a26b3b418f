//! Files of a stream that an interrupted run finished.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use packhorse_core::{Digest, Ends, Sha256, StreamFile, open_regular};
use packhorse_shard::PairHasher;
use packhorse_source::Entry;
use sha2::Digest as _;

use super::stream::FileJob;
use crate::error::Result;
use crate::read_ahead::Look;
use crate::report::{Findings, note};
use crate::schedule::held;

/// The largest sample that is held in memory to be compared; a file with a larger one is written anew.
const LARGEST: u64 = 1 << 30;

impl FileJob<'_, '_> {
    /// Returns what a file is made of, but for the bytes of its payloads.
    pub(super) fn plan_of(&self, name: &str, ranks: &[u32]) -> Result<Digest> {
        let stream = self.run.target.stream;
        let mut hasher = Sha256::new();
        for text in [stream.name(), name] {
            hasher.update((text.len() as u64).to_le_bytes());
            hasher.update(text);
        }
        hasher.update([stream.options()]);
        hasher.update((self.run.classes.len() as u64).to_le_bytes());
        for (number, class) in self.run.classes {
            hasher.update(number.to_le_bytes());
            hasher.update((class.len() as u64).to_le_bytes());
            hasher.update(class);
        }
        for rank in ranks {
            self.run.plan.hash_row(self.rows[*rank as usize].at, &mut hasher)?;
        }
        Ok(Digest::finish(hasher))
    }

    /// Returns the file where an earlier run finished it and every byte of it is what this one would write; the source is not
    /// read again.
    pub(super) fn kept(
        &self,
        path: &Path,
        name: &str,
        ranks: &[u32],
        plan: Digest,
    ) -> Result<Option<(StreamFile, Findings)>> {
        let Some(finished) = held(self.run.journal).get(plan) else { return Ok(None) };
        let Ok(file) = open_regular(path) else { return Ok(None) };
        let Ends { head, tail } = self.ends(ranks)?;
        let mut kept =
            Kept { from: BufReader::with_capacity(1 << 20, file), hasher: PairHasher::new(true), at: 0 };
        let mut findings = Findings::new();
        if !kept.has(&head) {
            return Ok(None);
        }
        for rank in ranks {
            let row = self.rows[*rank as usize];
            let entry = self.run.plan.row_at(row.at)?;
            if !self.kept_sample(&mut kept, &entry, row.first_field, &mut findings)? {
                return Ok(None);
            }
        }
        let whole = kept.has(&tail) && matches!(kept.from.read(&mut [0]), Ok(0));
        let file = StreamFile { name: name.to_owned(), len: kept.at, sha256: kept.hasher.finish() };
        Ok((whole && file.sha256.0 == finished.file).then_some((file, findings)))
    }

    /// Compares a sample, and notes the places of its payloads.
    fn kept_sample(
        &self,
        kept: &mut Kept,
        entry: &Entry,
        first_field: u64,
        findings: &mut Findings,
    ) -> Result<bool> {
        let unseen = vec![(0, None); entry.files().count()];
        // Of the bytes around the payloads, what the payloads decide may differ here, but no length.
        let pieces = self.pieces(entry, &unseen)?;
        let framing: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        let whole = entry.size().saturating_add(framing);
        let mut bytes = Vec::new();
        if whole > LARGEST
            || !matches!((&mut kept.from).take(whole).read_to_end(&mut bytes), Ok(read) if read as u64 == whole)
        {
            return Ok(false);
        }
        let (mut seen, mut payloads, mut at) = (Vec::new(), Vec::new(), 0);
        for (file, piece) in entry.files().zip(&pieces) {
            at += piece.len();
            let payload = at..at + file.blob.size as usize;
            at = payload.end;
            let look = Look::of(entry, file, &bytes[payload.clone()]);
            note(findings, entry, file, &look.findings);
            seen.push((crc32c::crc32c(&bytes[payload.clone()]), look.image));
            payloads.push(payload);
        }
        let pieces = self.pieces(entry, &seen)?;
        let (mut places, mut at) = (Vec::new(), 0);
        for ((piece, payload), (crc32c, _)) in pieces.iter().zip(&payloads).zip(seen) {
            if bytes.get(at..payload.start) != Some(piece) {
                return Ok(false);
            }
            kept.hasher.file(piece);
            kept.hasher.both(&bytes[payload.clone()]);
            let (offset, sha256) = (kept.at + payload.start as u64, kept.hasher.finish_record());
            places.push(self.place(offset, payload.len() as u64, crc32c, sha256));
            at = payload.end;
        }
        let last = pieces.last().map_or(&[][..], Vec::as_slice);
        if &bytes[at..] != last {
            return Ok(false);
        }
        kept.hasher.file(last);
        kept.at += whole;
        self.places.put(first_field, &places)?;
        self.run.writing.progress.advance(1, entry.size());
        Ok(true)
    }
}

/// A file that is compared.
struct Kept {
    from: BufReader<File>,
    hasher: PairHasher,
    at: u64,
}

impl Kept {
    /// Returns whether these bytes come next.
    fn has(&mut self, expected: &[u8]) -> bool {
        let mut found = vec![0; expected.len()];
        let has = self.from.read_exact(&mut found).is_ok() && found == expected;
        self.hasher.file(&found);
        self.at += found.len() as u64;
        has
    }
}

use std::fmt;

/// A part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Finding files and their sizes.
    Scan,
    /// Reading files and writing segments.
    Pack,
    /// Reading bytes and comparing digests.
    Verify,
    /// Writing files.
    Unpack,
    /// Looking at images.
    Look,
    /// Writing damaged files anew.
    Repair,
    /// Comparing the tables of two packs.
    Compare,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scan => "scan",
            Self::Pack => "pack",
            Self::Verify => "verify",
            Self::Unpack => "unpack",
            Self::Look => "look",
            Self::Repair => "repair",
            Self::Compare => "compare",
        })
    }
}

/// Hears how a run gets on. Called from many threads; must not block.
pub trait Progress: Send + Sync {
    /// A phase begins; totals where they are known.
    fn begin(&self, phase: Phase, samples: Option<u64>, bytes: Option<u64>) {
        let _ = (phase, samples, bytes);
    }

    /// So much more is done.
    fn advance(&self, samples: u64, bytes: u64) {
        let _ = (samples, bytes);
    }
}

impl Progress for () {}

//! Files that a command writes beside packs: they appear whole, and take the place of nothing but files.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Result;
use packhorse::errors::FileError;
use packhorse::{Error, path_text};

/// Refuses a place where no file can be written, or that another thing than a file has. `pack` is not written into.
pub(crate) fn check(path: &Path, pack: Option<&Path>) -> Result<()> {
    let refuse = |what: String| Err(Error::Refused { what, hint: "name another file".into() }.into());
    let folder = folder_of(path);
    if fs::symlink_metadata(path).is_ok_and(|there| !there.is_file()) {
        return refuse(format!("{} is there, and is no regular file", path_text(path)));
    }
    let folder = fs::canonicalize(folder).map_err(FileError::io("open", folder))?;
    let pack = pack.and_then(|pack| fs::canonicalize(pack).ok());
    if pack.is_some_and(|pack| folder.starts_with(pack)) {
        return refuse(format!("{} lies in the pack", path_text(path)));
    }
    Ok(())
}

/// Writes a file at a place that was checked.
pub(crate) fn file(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut builder = tempfile::Builder::new();
    let file =
        builder.prefix(".packhorse-").permissions(Permissions::from_mode(0o666)).tempfile_in(folder_of(path));
    let mut file = file.map_err(FileError::io("create", path))?;
    file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(FileError::io("write", path))?;
    file.persist(path).map_err(|kept| FileError::io("rename to", path)(kept.error))?;
    Ok(())
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

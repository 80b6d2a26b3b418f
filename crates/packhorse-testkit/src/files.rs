use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Relative paths, as bytes, and what the files hold.
pub type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// Makes the content of `count` files in four classes: some empty, some equal, one larger than `large` bytes.
pub fn fill(count: usize, large: usize) -> Content {
    (0..count)
        .map(|i| {
            let size = match i % 7 {
                0 => i % 3,
                1 if i == 1 => large,
                _ => 40 + i * i % 700,
            };
            let bytes = (0..size).map(|at| (at * 31 + i * i) as u8).collect();
            (format!("c{}/{:05}.bin", i % 4, i).into_bytes(), bytes)
        })
        .collect()
}

/// Writes files below a folder.
pub fn tree(root: &Path, content: &Content) {
    fs::create_dir_all(root).unwrap();
    for (path, bytes) in content {
        let path = root.join(OsStr::from_bytes(path));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

/// Reads all files below a folder, but for those in top folders named in `but`.
pub fn read(root: &Path, but: &[&str]) -> Content {
    let mut content = Content::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            if but.iter().any(|but| path == Path::new(but)) {
                continue;
            }
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(path),
                false => {
                    let bytes = fs::read(root.join(&path)).unwrap();
                    content.insert(path.as_os_str().as_bytes().to_vec(), bytes);
                }
            }
        }
    }
    content
}

/// Changes one bit of a file and nothing else about it.
pub fn flip(path: &Path, bit: u64) {
    let modified = fs::metadata(path).unwrap().modified().unwrap();
    let mut bytes = fs::read(path).unwrap();
    bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
    fs::write(path, bytes).unwrap();
    fs::File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
}

/// Returns the folder `fixtures` of the checkout.
pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

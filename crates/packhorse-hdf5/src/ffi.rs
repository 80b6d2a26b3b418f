//! Calls of libhdf5 that the `hdf5` crate does not offer.

use std::ffi::{CString, c_uint};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use hdf5::plist::{FileAccess, FileCreate};
use hdf5::types::VarLenAscii;
use hdf5::{Datatype, Error, File, Result};
use hdf5_sys::h5f::{H5F_ACC_RDONLY, H5F_ACC_TRUNC, H5Fcreate, H5Fopen};
use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5p::H5Pset;
use hdf5_sys::h5t::{H5T_class_t, H5Tget_class};

/// Opens a file for reading, also one that is shorter than it says. Takes no lock, so that it may lie where there are none.
#[expect(unsafe_code, reason = "the safe wrapper refuses files that are cut and paths that are not UTF-8")]
pub(crate) fn open(path: &Path) -> Result<File> {
    let access = FileAccess::build().file_locking(false).finish()?;
    // SAFETY: the list is alive; the property is a C bool, and libhdf5 copies it. A library that does not have it says so, and
    // then refuses files that are cut.
    let _ = hdf5::sync::sync(|| unsafe {
        H5Pset(access.id(), c"skip_eof_check".as_ptr(), std::ptr::from_mut(&mut true).cast())
    });
    // SAFETY: the name ends with a zero and outlives the call, and so does the list.
    file(path, |name| unsafe { H5Fopen(name.as_ptr(), H5F_ACC_RDONLY as c_uint, access.id()) })
}

/// Creates a file; replaces one that is there.
#[expect(unsafe_code, reason = "the safe wrapper refuses paths that are not UTF-8")]
pub(crate) fn create(path: &Path) -> Result<File> {
    // The oldest forms of all that is written: libraries from 1.8 on read it.
    let access = FileAccess::build().libver_earliest().file_locking(false).finish()?;
    let create = FileCreate::build().obj_track_times(false).finish()?;
    // SAFETY: the name ends with a zero and outlives the call, and so do the lists.
    file(path, |name| unsafe { H5Fcreate(name.as_ptr(), H5F_ACC_TRUNC as c_uint, create.id(), access.id()) })
}

#[expect(unsafe_code, reason = "takes over the file that a call of libhdf5 opened")]
fn file(path: &Path, call: impl FnOnce(&CString) -> hid_t) -> Result<File> {
    let name = CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Error::Internal("the path has a zero byte".into()))?;
    hdf5::sync::sync(|| {
        let id = hdf5::h5check(call(&name))?;
        // SAFETY: nothing else has this new id, and it is a file's, which is checked again.
        unsafe { hdf5::from_id(id) }
    })
}

/// Returns whether a type is opaque: plain bytes.
#[expect(unsafe_code, reason = "the safe wrapper has no opaque types")]
pub(crate) fn is_opaque(datatype: &Datatype) -> bool {
    // SAFETY: the type is alive.
    hdf5::sync::sync(|| unsafe { H5Tget_class(datatype.id()) }) == H5T_class_t::H5T_OPAQUE
}

/// Makes a string of bytes that may be no text; they end before the first zero.
#[expect(unsafe_code, reason = "the safe constructor takes ASCII alone")]
pub(crate) fn bytes(bytes: &[u8]) -> VarLenAscii {
    let bytes = bytes.split(|&b| b == 0).next().unwrap_or_default();
    // SAFETY: there is no zero in it. That it is ASCII counts only for those who read it as text, and nobody does.
    unsafe { VarLenAscii::from_ascii_unchecked(bytes) }
}

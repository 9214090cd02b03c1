import NIOCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

extension ByteBuffer {
    /// Returns memory of the storage to the system: the whole pages from an index on, which contain nothing else. Their bytes
    /// are zero afterwards in all buffers with this storage. One system call, and one page fault for each page that is used again.
    func returnPages(from index: Int) {
        let page = UInt(sysconf(Int32(_SC_PAGESIZE)))
        withVeryUnsafeBytes { bytes in
            let start = UInt(bitPattern: bytes.baseAddress)
            let first = (start + UInt(index) + page - 1) / page * page
            let end = (start + UInt(bytes.count)) / page * page
            guard first < end else { return }
            madvise(UnsafeMutableRawPointer(bitPattern: first), Int(end - first), MADV_DONTNEED)
        }
    }
}

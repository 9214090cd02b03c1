#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Reads files of the configuration. Opening a FIFO would wait for a writer, and a device may never end.
package enum RegularFile {
    /// The size in bytes of files that are read in whole, unless another one is given.
    package static let limit = 16_777_216

    /// The contents of a file; `nil` if it cannot be read or has no size, such as a FIFO. Devices without an end are empty.
    /// - Parameter limit: In bytes. Of a larger file, one byte more than this is read and returned.
    package static func contents(of path: String, limit: Int = limit) -> [UInt8]? {
        let descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        let size = min(Int(lseek(descriptor, 0, SEEK_END)), limit + 1)
        guard size >= 0, lseek(descriptor, 0, SEEK_SET) == 0 else { return nil }
        var contents: [UInt8] = []
        var part = [UInt8](repeating: 0, count: min(size, 65_536))
        while contents.count < size {
            let count = read(descriptor, &part, min(part.count, size - contents.count))
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { return nil }
            if count == 0 { break }
            contents += part[..<count]
        }
        return contents
    }
}

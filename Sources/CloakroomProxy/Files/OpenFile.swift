import CloakroomCore
import NIOCore
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

extension FileIdentity {
    /// - Returns: `nil` unless it is a regular file.
    init?(_ status: stat) {
        guard status.st_mode & S_IFMT == S_IFREG, status.st_size >= 0 else { return nil }
        self.init(
            device: UInt64(status.st_dev), inode: UInt64(status.st_ino), size: Int(status.st_size),
            modified: Int64(status.st_mtim.tv_sec) &* 1_000_000_000 &+ Int64(status.st_mtim.tv_nsec),
            changed: Int64(status.st_ctim.tv_sec) &* 1_000_000_000 &+ Int64(status.st_ctim.tv_nsec))
    }

    /// The file of a descriptor; `nil` if it is not regular.
    init?(descriptor: CInt) {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return nil }
        self.init(status)
    }

    /// Opens a file that is no symbolic link. A FIFO is not waited for, and a device not read.
    /// - Returns: The descriptor and the identity of the regular file; `nil` for anything else.
    static func openFile(_ path: String) -> (descriptor: CInt, identity: FileIdentity)? {
        let descriptor = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        if let identity = FileIdentity(descriptor: descriptor) { return (descriptor, identity) }
        close(descriptor)
        return nil
    }
}

/// A file that is being sent. It counts as open from its creation until it is released, which closes it.
final class OpenFile: Sendable {
    private static let count = Atomic<Int>(0)

    private let content: FileContent
    private let opened = Mutex<(handle: NIOFileHandle, identity: FileIdentity)?>(nil)

    /// - Parameter limit: The maximum number of open files of the process.
    /// - Returns: `nil` if as many are open.
    init?(_ content: FileContent, limit: Int) {
        self.content = content
        guard Self.count.wrappingAdd(1, ordering: .relaxed).newValue <= limit else { return nil }
    }

    deinit {
        opened.withLock { try? $0?.handle.close() }
        Self.count.wrappingSubtract(1, ordering: .relaxed)
    }

    /// Opens the file. Blocks.
    /// - Returns: Whether it is the one that was scanned. Its mode and the number of its names may differ.
    func open() -> Bool {
        guard let (descriptor, identity) = FileIdentity.openFile(content.path) else { return false }
        let handle = NIOFileHandle(_deprecatedTakingOwnershipOfDescriptor: descriptor)
        opened.withLock { $0 = (handle, identity) }
        return identity.hasContent(of: content.identity)
    }

    /// Whether nothing has changed since the file was opened.
    var isUnchanged: Bool { withDescriptor { FileIdentity(descriptor: $0) == $1 } ?? false }

    /// Whether the file is still the one that was scanned, in every respect.
    var isScanned: Bool { withDescriptor { $1 == content.identity } ?? false }

    /// Reads a part. Blocks.
    /// - Returns: `nil` if the file has changed since it was opened.
    func read(at offset: Int, count: Int) -> ByteBuffer? {
        withDescriptor { descriptor, identity in
            var buffer = ByteBuffer()
            while buffer.readableBytes < count {
                let done = buffer.readableBytes
                let read = buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: count - done) { room in
                    max(pread(descriptor, room.baseAddress, count - done, off_t(offset + done)), 0)
                }
                guard read > 0 else { return nil }
            }
            return FileIdentity(descriptor: descriptor) == identity ? buffer : nil
        } ?? nil
    }

    /// A part that the system sends, and the next one that it reads meanwhile.
    func region(at offset: Int, count: Int) -> FileRegion? {
        opened.withLock { opened in
            guard let handle = opened?.handle else { return nil }
            let next = offset + count
            _ = try? handle.withUnsafeFileDescriptor {
                posix_fadvise($0, off_t(next), off_t(count), CInt(POSIX_FADV_WILLNEED))
            }
            return FileRegion(fileHandle: handle, readerIndex: offset, endIndex: next)
        }
    }

    private func withDescriptor<Result>(_ body: (CInt, FileIdentity) -> Result) -> Result? {
        let opened = self.opened.withLock { $0 }
        guard let opened else { return nil }
        return try? opened.handle.withUnsafeFileDescriptor { body($0, opened.identity) }
    }
}

import CLinux
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

/// A file that is being sent. It counts as open from its creation until it is paused or released, which closes it.
final class OpenFile: Sendable {
    private static let count = Atomic<Int>(0)

    private struct State {
        var descriptor: CInt = -1
        /// The file that was opened first.
        var identity: FileIdentity?
        var isCounted = true
        /// Whether its file system knows what is in memory.
        var knowsMemory = true
    }

    private let content: FileContent
    private let limit: Int
    private let load: ClientLoad?
    private let state = Mutex(State())

    /// - Parameters:
    ///   - limit: The maximum number of open files of the process. One client address has a quarter of it.
    ///   - load: Of the client's address; `nil` behind trusted proxies.
    /// - Returns: `nil` if as many are open.
    init?(_ content: FileContent, limit: Int, load: ClientLoad?) {
        (self.content, self.limit, self.load) = (content, limit, load)
        guard take() else { return nil }
    }

    deinit { pause() }

    /// Counts it as open.
    /// - Returns: Whether the limits allow it.
    private func take() -> Bool {
        let all = Self.count.wrappingAdd(1, ordering: .relaxed).newValue
        let own = load?.openFiles.wrappingAdd(1, ordering: .relaxed).newValue ?? 0
        return all <= limit && own <= max(1, limit / 4)
    }

    /// Closes it, and does not count it, until the next read. Not called during one.
    func pause() {
        state.withLock { state in
            if state.descriptor >= 0 { close(state.descriptor) }
            state.descriptor = -1
            if state.isCounted { giveBack() }
            state.isCounted = false
        }
    }

    private func giveBack() {
        Self.count.wrappingSubtract(1, ordering: .relaxed)
        load?.openFiles.wrappingSubtract(1, ordering: .relaxed)
    }

    /// Reads a part whose bytes are in memory, of a file that is open. Does not wait for the disk.
    /// - Returns: `nil` if ``read(_:)`` has to.
    func readFromMemory(_ range: Range<Int>) -> ByteBuffer? {
        state.withLock { state -> ByteBuffer? in
            guard state.descriptor >= 0, state.isCounted, state.knowsMemory else { return nil }
            var buffer = ByteBuffer()
            var isKnown = true
            buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: range.count) { room in
                var part = iovec(iov_base: room.baseAddress, iov_len: range.count)
                let count = preadv2(state.descriptor, &part, 1, off_t(range.lowerBound), CInt(CLINUX_NO_WAIT))
                isKnown = count >= 0 || errno == EAGAIN
                return max(count, 0)
            }
            state.knowsMemory = isKnown
            let isWhole = buffer.readableBytes == range.count
            return isWhole && FileIdentity(descriptor: state.descriptor) == state.identity ? buffer : nil
        }
    }

    /// Reads a part, and opens the file before it, unless it is open. Blocks.
    ///
    /// If as many files are open as are permitted, it is closed after the part: only each thread that reads has one more.
    /// - Returns: `nil` if it is not the file that was scanned, whose mode and number of names may differ, or has changed
    ///   since it was opened first.
    func read(_ range: Range<Int>) -> ByteBuffer? {
        let (descriptor, identity, isCounted) = state.withLock { state in
            if !state.isCounted {
                state.isCounted = take()
                if !state.isCounted { giveBack() }
            }
            if state.descriptor < 0, let file = FileIdentity.openFile(content.path) {
                state.descriptor = file.descriptor
                state.identity = state.identity ?? file.identity
            }
            return (state.descriptor, state.identity, state.isCounted)
        }
        defer { if !isCounted { pause() } }
        guard descriptor >= 0, let identity, identity.hasContent(of: content.identity) else { return nil }
        var buffer = ByteBuffer()
        while buffer.readableBytes < range.count {
            let rest = range.dropFirst(buffer.readableBytes)
            let read = buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: rest.count) { room in
                max(pread(descriptor, room.baseAddress, rest.count, off_t(rest.lowerBound)), 0)
            }
            guard read > 0 else { return nil }
        }
        return FileIdentity(descriptor: descriptor) == identity ? buffer : nil
    }
}

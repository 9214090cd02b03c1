import Glibc
import Synchronization

/// A file descriptor for log lines. Used by one thread.
struct FileDescriptorOutput: ~Copyable, Sendable {
    private let fileDescriptor: Int32
    /// Whether the last write stopped within a line, which the next write must not continue.
    private let isInsideLine = Atomic<Bool>(false)

    init(fileDescriptor: Int32) {
        self.fileDescriptor = fileDescriptor
    }

    /// Writes all bytes; blocks while the descriptor does.
    ///
    /// - Returns: The number of bytes written; fewer than all if the descriptor failed, or if `isAbandoned` returned
    ///   true while a non-blocking descriptor was full.
    func write(_ bytes: [UInt8], isAbandoned: () -> Bool) -> Int {
        guard let last = bytes.last else { return 0 }
        if isInsideLine.load(ordering: .relaxed) {
            guard writeAll([UInt8(ascii: "\n")], isAbandoned) == 1 else { return 0 }
            isInsideLine.store(false, ordering: .relaxed)
        }
        let written = writeAll(bytes, isAbandoned)
        let end = written == bytes.count ? last : written == 0 ? UInt8(ascii: "\n") : bytes[written - 1]
        isInsideLine.store(end != UInt8(ascii: "\n"), ordering: .relaxed)
        return written
    }

    private func writeAll(_ bytes: [UInt8], _ isAbandoned: () -> Bool) -> Int {
        var written = 0
        while written < bytes.count, !isAbandoned() {
            // The system call takes a pointer.
            let result = bytes.withUnsafeBytes { buffer in
                let rest = UnsafeRawBufferPointer(rebasing: buffer[written...])
                return Glibc.write(fileDescriptor, rest.baseAddress, rest.count)
            }
            if result >= 0 {
                written += result
                continue
            }
            switch errno {
            case EINTR:
                continue
            case EAGAIN:
                var descriptor = pollfd(fd: fileDescriptor, events: Int16(POLLOUT), revents: 0)
                _ = poll(&descriptor, 1, 100)
            default:
                return written
            }
        }
        return written
    }
}

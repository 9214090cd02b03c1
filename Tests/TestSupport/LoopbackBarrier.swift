#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// On a busy machine the kernel may deliver what was sent over loopback with a delay.
package enum LoopbackBarrier {
    /// Returns when no CPU has packets in its queue, or after 0.1 s. A thread that has moved to another CPU would overtake
    /// what it has sent.
    package static func waitForQueues() {
        for _ in 0..<1_000 where hasQueuedPackets { usleep(100) }
    }

    /// Returns when what this thread has sent over loopback before is delivered: sends a datagram to itself, which the
    /// kernel handles in order, and waits for it for at most a second.
    package static func pass() {
        let descriptor = socket(AF_INET, Int32(SOCK_DGRAM.rawValue), 0)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        var limit = timeval(tv_sec: 1, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        withUnsafeMutableBytes(of: &address) { bytes in
            guard let pointer = bytes.baseAddress?.assumingMemoryBound(to: sockaddr.self),
                bind(descriptor, pointer, length) == 0, getsockname(descriptor, pointer, &length) == 0
            else { return }
            var byte: UInt8 = 0
            if sendto(descriptor, &byte, 1, 0, pointer, length) == 1 { recv(descriptor, &byte, 1, 0) }
        }
    }

    /// Whether packets wait in the queue of a CPU: the last two numbers of its line.
    private static var hasQueuedPackets: Bool {
        let descriptor = open("/proc/net/softnet_stat", O_RDONLY)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        let bytes = [UInt8](unsafeUninitializedCapacity: 65_536) { buffer, count in
            count = max(0, read(descriptor, buffer.baseAddress, buffer.count))
        }
        return bytes.split(separator: UInt8(ascii: "\n")).contains { line in
            let numbers = line.split(separator: UInt8(ascii: " "))
            return numbers.count >= 15 && numbers[13...14].contains { $0.contains { $0 != UInt8(ascii: "0") } }
        }
    }
}

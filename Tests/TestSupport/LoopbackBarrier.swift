#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// On a busy machine the kernel may deliver what was sent over loopback with a delay.
package enum LoopbackBarrier {
    private typealias GetCores = @convention(c) (pid_t, Int, UnsafeMutablePointer<cpu_set_t>) -> CInt
    private typealias SetCores = @convention(c) (pid_t, Int, UnsafePointer<cpu_set_t>) -> CInt

    /// The module of the C library leaves out what only GNU has.
    private static let getCores = dlsym(nil, "sched_getaffinity").map { unsafeBitCast($0, to: GetCores.self) }
    private static let setCores = dlsym(nil, "sched_setaffinity").map { unsafeBitCast($0, to: SetCores.self) }

    /// Returns when what this process has sent over loopback before is delivered. Each core has a queue of its own, so the
    /// thread visits every core: it sends a datagram to itself there, which the kernel handles in order, and waits for it for
    /// at most a second.
    package static func pass() {
        let size = MemoryLayout<cpu_set_t>.size
        var all = cpu_set_t()
        guard let getCores, let setCores, getCores(0, size, &all) >= 0 else { return send() }
        defer { _ = setCores(0, size, &all) }
        let cores = withUnsafeBytes(of: all) { bytes in
            (0..<bytes.count * 8).filter { bytes[$0 / 8] & 1 << ($0 % 8) != 0 }
        }
        for core in cores {
            var one = cpu_set_t()
            withUnsafeMutableBytes(of: &one) { $0[core / 8] = 1 << (core % 8) }
            _ = setCores(0, size, &one)
            send()
        }
    }

    /// Sends a datagram over loopback, and waits for it.
    private static func send() {
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
}

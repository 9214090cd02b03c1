#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Returns freed memory to the system after the number of connections has fallen to half of its peak: glibc's allocator
/// keeps freed memory otherwise. Does nothing with other allocators.
struct HeapTrimmer {
    private var peak = 0
    /// Whether the previous check was a trim. It is repeated once, because a TLS handler whose client did not respond to
    /// close_notify is released up to 5 s after its connection.
    private var isRepeatDue = false

    /// Minimum peak; fewer connections leave too little memory to return.
    private static let smallest = 16

    /// Updates the peak with the current number of connections.
    /// - Returns: Whether the number has halved since the last time that it did, at this or the previous call.
    mutating func shouldTrim(connections: Int) -> Bool {
        peak = max(peak, connections)
        let isRepeat = isRepeatDue
        isRepeatDue = peak >= Self.smallest && connections <= peak / 2
        guard isRepeatDue else { return isRepeat }
        peak = connections
        return true
    }

    /// Checks every `interval` until cancelled. Not on an event loop: scanning the free memory takes milliseconds.
    static func watch(_ limit: ConnectionLimit, every interval: Duration = .seconds(5)) async {
        var memory = HeapTrimmer()
        while !Task.isCancelled {
            // `sleep` throws only on cancellation, which ends the loop.
            try? await Task.sleep(for: interval)
            guard memory.shouldTrim(connections: limit.count) else { continue }
            _ = trim?(0)
        }
    }

    /// `malloc_trim(3)`, resolved at run time: Swift's `Glibc` module does not export it, and other C libraries lack
    /// it.
    private static let trim: (@convention(c) (Int) -> Int32)? = {
        guard let symbol = dlsym(nil, "malloc_trim") else { return nil }
        return unsafeBitCast(symbol, to: (@convention(c) (Int) -> Int32).self)
    }()
}

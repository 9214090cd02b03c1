#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Gives memory back to the system once a crowd has gone: glibc's allocator keeps what was freed for the next one. With
/// another allocator it does nothing.
struct HeapTrimmer {
    private var peak = 0

    /// Crowds smaller than this leave too little behind.
    private static let smallest = 16

    /// Takes in how many connections there are.
    /// - Returns: Whether a crowd has gone since the last time that it returned `true`.
    mutating func shouldTrim(connections: Int) -> Bool {
        peak = max(peak, connections)
        guard peak >= Self.smallest, connections <= peak / 2 else { return false }
        peak = connections
        return true
    }

    /// Looks now and then, until it is cancelled. Not on an event loop: to look through all that is free takes milliseconds.
    static func watch(_ limit: ConnectionLimit, every interval: Duration = .seconds(5)) async {
        var memory = HeapTrimmer()
        while !Task.isCancelled {
            // What cuts the pause short is the end, which is no failure.
            try? await Task.sleep(for: interval)
            guard memory.shouldTrim(connections: limit.count) else { continue }
            _ = trim?(0)
        }
    }

    /// `malloc_trim(3)`, looked up by name: Swift's module of glibc leaves it out, and other libraries have none.
    private static let trim: (@convention(c) (Int) -> Int32)? = {
        guard let symbol = dlsym(nil, "malloc_trim") else { return nil }
        return unsafeBitCast(symbol, to: (@convention(c) (Int) -> Int32).self)
    }()
}

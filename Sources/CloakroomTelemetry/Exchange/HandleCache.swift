/// What selects a handle: small numbers, packed into one word in the order in which they are added. The highest bit set
/// marks the start, so no key is 0; 63 bits are available.
struct HandleKey: Hashable {
    private(set) var word: UInt64 = 1

    /// - Parameter value: Below 2^`bits`. Higher bits are ignored: they must not change the other values.
    @inline(__always)
    consuming func adding(_ value: some FixedWidthInteger, bits: UInt64) -> HandleKey {
        assert(word >> (64 - bits) == 0, "the key has more than 63 bits")
        word = word << bits | UInt64(truncatingIfNeeded: value) & (1 << bits - 1)
        return self
    }

    /// Adds a case of an enumeration of at most 32.
    consuming func adding(_ value: some RawRepresentable<UInt8>) -> HandleKey { adding(value.rawValue, bits: 5) }

    /// Adds an index, or -1, below 2^22 - 1.
    consuming func adding(index: Int) -> HandleKey { adding(index + 1, bits: 22) }
}

/// A cache of the handles of one loop: open addressing over two flat arrays, so a hit usually costs one
/// multiplication and one comparison.
struct HandleCache<Handle: AnyObject> {
    /// A free slot holds 0, which is no key.
    private var keys = [UInt64](repeating: 0, count: 64)
    private var handles = [Handle?](repeating: nil, count: 64)
    private(set) var count = 0
    private let limit: Int

    /// - Parameter limit: The maximum number of cached handles; others are requested from the registry each time.
    init(limit: Int = 16_384) { self.limit = limit }

    subscript(key: HandleKey) -> Handle? {
        let key = key.word
        var slot = Self.slot(of: key, mask: keys.count - 1)
        while true {
            let found = keys[slot]
            if found == key { return handles[slot] }
            if found == 0 { return nil }
            slot = (slot + 1) & (keys.count - 1)
        }
    }

    /// Inserts a handle whose key is absent, and returns it.
    mutating func insert(_ handle: Handle, for key: HandleKey) -> Handle {
        guard count < limit else { return handle }
        if (count + 1) * 2 > keys.count { grow() }
        place(handle, key.word)
        count += 1
        return handle
    }

    private mutating func place(_ handle: Handle?, _ key: UInt64) {
        var slot = Self.slot(of: key, mask: keys.count - 1)
        while keys[slot] != 0 { slot = (slot + 1) & (keys.count - 1) }
        keys[slot] = key
        handles[slot] = handle
    }

    private mutating func grow() {
        let (oldKeys, oldHandles) = (keys, handles)
        keys = Array(repeating: 0, count: oldKeys.count * 2)
        handles = Array(repeating: nil, count: oldKeys.count * 2)
        for index in oldKeys.indices where oldKeys[index] != 0 { place(oldHandles[index], oldKeys[index]) }
    }

    private static func slot(of key: UInt64, mask: Int) -> Int {
        // Fibonacci hashing: the product's high bits depend on all bits of the key.
        Int(truncatingIfNeeded: (key &* 0x9E37_79B9_7F4A_7C15) >> 32) & mask
    }
}

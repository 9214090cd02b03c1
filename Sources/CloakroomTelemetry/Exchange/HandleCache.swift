/// A cache of the handles of one loop by a packed key: open addressing over two flat arrays, so a hit usually costs one
/// multiplication and one comparison.
struct HandleCache<Handle: AnyObject> {
    /// A free slot holds 0; keys have their top bit set, so none of them is 0.
    private var keys: [UInt64]
    private var handles: [Handle?]
    private(set) var count = 0
    private let limit: Int

    /// - Parameter limit: The maximum number of cached handles; others are requested from the registry each time.
    init(limit: Int = 16_384) {
        self.limit = limit
        keys = Array(repeating: 0, count: 64)
        handles = Array(repeating: nil, count: 64)
    }

    subscript(key: UInt64) -> Handle? {
        let key = key | Self.taken
        var slot = Self.slot(of: key, mask: keys.count - 1)
        while true {
            let found = keys[slot]
            if found == key { return handles[slot] }
            if found == 0 { return nil }
            slot = (slot + 1) & (keys.count - 1)
        }
    }

    /// Inserts a handle whose key is absent.
    mutating func insert(_ handle: Handle, for key: UInt64) {
        guard count < limit else { return }
        if (count + 1) * 2 > keys.count { grow() }
        place(handle, key | Self.taken)
        count += 1
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

    private static var taken: UInt64 { 1 << 63 }

    private static func slot(of key: UInt64, mask: Int) -> Int {
        // Fibonacci hashing: the product's high bits depend on all bits of the key.
        Int(truncatingIfNeeded: (key &* 0x9E37_79B9_7F4A_7C15) >> 32) & mask
    }
}

/// The literal edges of a route tree, all in one hash table with open addressing that is at most half full.
///
/// Clients cannot degrade it: the entries come from the configuration, and an unsuccessful lookup ends at the first
/// free slot.
struct SegmentEdgeTable: Sendable {
    private struct Edge {
        var hash: UInt32 = 0
        var parent: Int32 = -1
        var child: Int32 = -1
        var start: Int32 = 0
        var count: Int32 = 0
    }

    private var slots: [Edge]
    private var names: [UInt8] = []
    private var mask: Int

    /// Allocates space for `capacity` edges; more must not be added.
    init(capacity: Int) {
        var size = 16
        while size < capacity * 2 { size *= 2 }
        slots = Array(repeating: Edge(), count: size)
        mask = size - 1
    }

    /// The initial hash value (FNV-1a).
    static let seed: UInt32 = 2_166_136_261

    /// Adds one byte to a hash.
    @inline(__always)
    static func hash(_ hash: UInt32, _ byte: UInt8) -> UInt32 {
        (hash ^ UInt32(byte)) &* 16_777_619
    }

    /// Returns the child of a node for the segment `path[start..<end]`, whose hash is given.
    @inline(__always)
    func child(of parent: Int, hash: UInt32, path: Span<UInt8>, from start: Int, to end: Int) -> Int? {
        var slot = self.slot(hash, parent)
        while slots[slot].child >= 0 {
            let edge = slots[slot]
            if edge.hash == hash, Int(edge.parent) == parent, Int(edge.count) == end - start {
                var index = 0
                while index < end - start, names[Int(edge.start) + index] == path[start + index] { index += 1 }
                if index == end - start { return Int(edge.child) }
            }
            slot = (slot + 1) & mask
        }
        return nil
    }

    /// Returns the child of a node for a literal; `orNew` is inserted if there is none yet.
    mutating func child(of parent: Int, named text: String, orNew child: Int) -> (child: Int, isNew: Bool) {
        let bytes = Array(text.utf8)
        let hash = bytes.reduce(Self.seed) { Self.hash($0, $1) }
        if let known = self.child(of: parent, hash: hash, path: bytes.span, from: 0, to: bytes.count) {
            return (known, false)
        }
        var slot = self.slot(hash, parent)
        while slots[slot].child >= 0 { slot = (slot + 1) & mask }
        slots[slot] = Edge(
            hash: hash, parent: Int32(parent), child: Int32(child), start: Int32(names.count), count: Int32(bytes.count)
        )
        names += bytes
        return (child, true)
    }

    @inline(__always)
    private func slot(_ hash: UInt32, _ parent: Int) -> Int {
        Int(truncatingIfNeeded: UInt64(hash) &* 0x9e37_79b9 &+ UInt64(parent) &* 0x85eb_ca6b) & mask
    }
}

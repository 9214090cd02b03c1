import CloakroomWire

/// The dynamic table of one direction of a connection (RFC 7541 §2.3.2, §4), with finished lines as entries.
///
/// The entries are a ring; their lines are stored one after the other in a buffer whose unused front is reclaimed by
/// moving the rest. Both are empty at first and grow to a size that the limit determines.
struct DynamicTable: ~Copyable {
    /// A line and its position in ``bytes``.
    struct Entry {
        var start: Int32
        var line: FieldLine
    }

    /// The lines. Only those of the entries are meaningful.
    private(set) var bytes: [UInt8] = []
    private var ring: [Entry] = []
    /// The number of all insertions, modulo 2^32. The ring's size is a power of two, so that overflow is harmless.
    private(set) var inserted: UInt32 = 0
    /// The number of entries.
    private(set) var count = 0
    /// The sum of the entries' sizes (RFC 7541 §4.1).
    private(set) var size = 0
    /// The maximum of ``size``, 0...16,384.
    private(set) var limit: Int
    /// Position after the newest line.
    private var end = 0

    static let maxLimit = 16_384

    /// Creates an empty table, which allocates nothing.
    init(limit: Int) {
        self.limit = min(max(limit, 0), Self.maxLimit)
    }

    /// The number of bytes allocated for lines and entries.
    var allocatedBytes: Int { bytes.capacity + ring.capacity * MemoryLayout<Entry>.stride }

    /// The lines, the newest first.
    var lines: [[UInt8]] {
        (0..<count).map { age in
            let entry = entry(age)
            return Array(bytes[Int(entry.start)..<(Int(entry.start) + entry.line.count)])
        }
    }

    /// Returns the entry of an age: 0 is the newest. The age must be less than ``count``.
    @inline(__always)
    func entry(_ age: Int) -> Entry {
        ring[slot(age)]
    }

    @inline(__always)
    private func slot(_ age: Int) -> Int {
        Int(inserted &- 1 &- UInt32(truncatingIfNeeded: age)) & (ring.count - 1)
    }

    /// Changes the limit and evicts what exceeds it (RFC 7541 §4.3).
    mutating func setLimit(_ newLimit: Int) {
        limit = min(max(newLimit, 0), Self.maxLimit)
        evict(to: limit)
    }

    /// Removes all entries, as an insertion of a line that is larger than the table does (RFC 7541 §4.4).
    mutating func removeAll() {
        evict(to: 0)
    }

    private mutating func evict(to newSize: Int) {
        while size > newSize {
            size -= entry(count - 1).line.tableSize
            count -= 1
        }
    }

    /// Inserts a line that is complete in other bytes than the table's.
    /// - Returns: Whether the line is an entry now; otherwise it is larger than the table, which is then empty.
    @discardableResult
    mutating func insert(_ source: Span<UInt8>, at start: Int, _ line: FieldLine) -> Bool {
        let lineSize = line.tableSize
        guard lineSize <= limit else {
            removeAll()
            return false
        }
        evict(to: limit - lineSize)
        reserve(line.count)
        let position = end
        var room = bytes.mutableSpan
        room.copy(source, from: start, count: line.count, to: position)
        inserted &+= 1
        ring[slot(0)] = Entry(start: Int32(truncatingIfNeeded: end), line: line)
        end += line.count
        count += 1
        size += lineSize
        return true
    }

    /// Frees memory that the entries do not use.
    mutating func compact() {
        let front = frontOffset
        guard bytes.count - (end - front) > 256 || ring.count > max(2 * count, 8) else { return }
        bytes = bytes.span.copy(front..<end)
        rebase(by: front)
        var capacity = count == 0 ? 0 : 8
        while capacity < count { capacity *= 2 }
        resizeRing(to: capacity)
    }

    // MARK: - Storage

    /// Position of the oldest line.
    private var frontOffset: Int { count > 0 ? Int(entry(count - 1).start) : end }

    /// Makes room for one more entry and a line of a length.
    private mutating func reserve(_ lineCount: Int) {
        if count == ring.count { resizeRing(to: max(8, 2 * ring.count)) }
        guard end + lineCount > bytes.count else { return }
        let front = frontOffset
        let live = end - front
        // At least half of the buffer is free after moving, so each byte is moved at most once for a byte inserted.
        if 2 * (live + lineCount) <= bytes.count {
            var room = bytes.mutableSpan
            room.move(from: front, count: live, to: 0)
        } else {
            var capacity = max(256, bytes.count)
            while capacity < 2 * (live + lineCount) { capacity *= 2 }
            bytes = bytes.span.copy(front..<end, capacity: capacity)
        }
        rebase(by: front)
    }

    private mutating func rebase(by offset: Int) {
        end -= offset
        for age in 0..<count { ring[slot(age)].start -= Int32(truncatingIfNeeded: offset) }
    }

    private mutating func resizeRing(to capacity: Int) {
        let none = Entry(start: 0, line: FieldLine(nameCount: 0, valueCount: 0, field: .other, role: .malformed))
        var larger = [Entry](repeating: none, count: capacity)
        for age in 0..<count {
            larger[Int(inserted &- 1 &- UInt32(truncatingIfNeeded: age)) & (capacity - 1)] = entry(age)
        }
        ring = larger
    }
}

extension Span<UInt8> {
    /// Returns a range of the bytes as an array of at least a size; the bytes after the range are 0.
    fileprivate func copy(_ range: Range<Int>, capacity: Int = 0) -> [UInt8] {
        let size = Swift.max(range.count, capacity)
        guard size > 0 else { return [] }
        var result = [UInt8](repeating: 0, count: size)
        var room = result.mutableSpan
        room.copy(self, from: range.lowerBound, count: range.count, to: 0)
        return result
    }
}

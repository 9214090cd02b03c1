import CloakroomWire

/// Field lines that upstreams send again and again, as received and as they are sent: with the name in lower case and
/// one space. One for each event loop.
///
/// It saves the work of finding and changing the name, and determines which lines recur: only those are inserted in
/// dynamic tables. It is bounded and lossy; a hit has been compared in full. It never adds bytes to a response that the
/// response did not contain.
public final class ResponseLineCache {
    var lines = CachedLines()

    /// Creates an empty cache. Its memory, about 100 KiB, is allocated at first use.
    public init() {}
}

/// The storage of a ``ResponseLineCache``.
struct CachedLines: ~Copyable {
    /// A line, which begins at a multiple of the slot sizes in ``received`` and ``finished``.
    struct Entry {
        /// The hash of the finished line.
        var hash: UInt64
        /// The number of bytes as received, without the line end; 0 if the slot is free.
        var receivedCount: UInt8
        var nameCount: UInt8
        var valueCount: UInt8
        /// The index of the name in the static table, or 0.
        var nameIndex: UInt8
    }

    static let slotCount = 256
    /// The maximum length of a line as received, without its end.
    static let maxLineCount = 192
    /// A finished line may have one byte more between name and value, and has an end.
    private static let finishedSize = maxLineCount + 4

    private var entries: [Entry] = []
    private var received: [UInt8] = []
    private(set) var finished: [UInt8] = []

    @inline(__always)
    static func slot(_ hash: UInt64) -> Int { Int(truncatingIfNeeded: hash) & (slotCount - 1) }

    /// Returns the entry of a line as received, if the slot contains it.
    @inline(__always)
    func entry(at slot: Int, _ bytes: Span<UInt8>, from start: Int, count: Int) -> Entry? {
        guard !entries.isEmpty else { return nil }
        let entry = entries[slot]
        guard Int(entry.receivedCount) == count,
            bytes.equals(received.span, at: start, otherStart: slot * Self.maxLineCount, count: count)
        else { return nil }
        return entry
    }

    /// The slot for a new line: the first of its two that is free, or the first one.
    func freeSlot(_ first: Int, _ second: Int) -> Int {
        guard !entries.isEmpty, entries[first].receivedCount != 0 else { return first }
        return entries[second].receivedCount == 0 ? second : first
    }

    /// Position of the finished line of a slot.
    @inline(__always)
    static func finishedStart(_ slot: Int) -> Int { slot * finishedSize }

    mutating func insert(at slot: Int, _ bytes: Span<UInt8>, _ line: ReceivedLine, nameIndex: UInt8) {
        let count = line.count
        guard count > 0, count <= Self.maxLineCount else { return }
        if entries.isEmpty { allocate() }
        var room = received.mutableSpan
        room.copy(bytes, from: line.start, count: count, to: slot * Self.maxLineCount)
        let start = Self.finishedStart(slot)
        var finishedRoom = finished.mutableSpan
        finishedRoom.copyLowerCase(bytes, from: line.start, count: line.nameCount, to: start)
        let separator = start + line.nameCount
        finishedRoom[separator] = UInt8(ascii: ":")
        finishedRoom[separator + 1] = UInt8(ascii: " ")
        finishedRoom.copy(bytes, from: line.valueStart, count: line.valueCount, to: separator + 2)
        let end = separator + 2 + line.valueCount
        finishedRoom[end] = 0x0d
        finishedRoom[end + 1] = 0x0a
        entries[slot] = Entry(
            hash: LineHash.hash(finished.span, from: start, count: end - start), receivedCount: UInt8(count),
            nameCount: UInt8(line.nameCount), valueCount: UInt8(line.valueCount), nameIndex: nameIndex)
    }

    private mutating func allocate() {
        let free = Entry(hash: 0, receivedCount: 0, nameCount: 0, valueCount: 0, nameIndex: 0)
        entries = Array(repeating: free, count: Self.slotCount)
        received = Array(repeating: 0, count: Self.slotCount * Self.maxLineCount)
        finished = Array(repeating: 0, count: Self.slotCount * Self.finishedSize)
    }
}

/// The positions of a field line in HTTP/1.1 syntax.
struct ReceivedLine {
    var start: Int
    var nameCount: Int
    var valueStart: Int
    var valueCount: Int

    /// The number of bytes up to the end of the value.
    @inline(__always) var count: Int { valueStart + valueCount - start }
}

extension MutableSpan<UInt8> {
    /// Copies a name of another span in lower case.
    @inline(__always)
    mutating func copyLowerCase(_ source: Span<UInt8>, from start: Int, count: Int, to position: Int) {
        for index in 0..<count { self[position + index] = Byte.lowerCase(source[start + index]) }
    }
}

/// A response field that the gateway adds to many responses: prepared once, so that it is not searched and compared for
/// each. It is inserted in the table when it recurs on a connection, as the lines of upstreams are.
public struct PreparedLine: Sendable {
    let entry: CachedLines.Entry
    /// The line with its end.
    let bytes: [UInt8]

    /// Prepares a line.
    /// - Parameters:
    ///   - name: The name in lower case; at most 100 bytes.
    ///   - value: The value without white space around it; at most 90 bytes.
    public init(name: StaticString, value: StaticString) {
        let text = name.description
        let line = Array("\(text): \(value.description)\r\n".utf8)
        let nameCount = text.utf8.count
        assert(nameCount <= 100 && value.utf8CodeUnitCount <= 90, "the line is too long")
        bytes = line
        entry = CachedLines.Entry(
            hash: LineHash.hash(line.span, from: 0, count: line.count),
            receivedCount: UInt8(truncatingIfNeeded: line.count - 2), nameCount: UInt8(truncatingIfNeeded: nameCount),
            valueCount: UInt8(truncatingIfNeeded: value.utf8CodeUnitCount),
            nameIndex: ResponseFieldNames.shared.name(line.span, from: 0, count: nameCount, .other).index)
    }
}

/// A fast hash of field lines. It only selects a slot: slots are compared in full, so collisions cost bytes and not
/// time.
enum LineHash {
    @inline(__always)
    static func hash(_ bytes: Span<UInt8>, from start: Int, count: Int) -> UInt64 {
        let raw = bytes.bytes
        let factor: UInt64 = 0xff51_afd7_ed55_8ccd
        var hash = 0x9e37_79b9_7f4a_7c15 ^ UInt64(truncatingIfNeeded: count)
        var index = start
        let end = start + count
        precondition(start >= 0 && count >= 0 && end <= bytes.count)
        while index &+ 8 <= end {
            hash = (hash ^ raw.unsafeLoadUnaligned(fromUncheckedByteOffset: index, as: UInt64.self)) &* factor
            hash ^= hash >> 32
            index &+= 8
        }
        var tail: UInt64 = 0
        if count >= 8 {
            // The last word overlaps the one before it.
            tail = raw.unsafeLoadUnaligned(fromUncheckedByteOffset: end &- 8, as: UInt64.self)
        } else {
            while index < end {
                tail = tail << 8 | UInt64(bytes[index])
                index += 1
            }
        }
        hash = (hash ^ tail) &* factor
        hash = (hash ^ hash >> 32) &* factor
        return hash ^ hash >> 29
    }
}

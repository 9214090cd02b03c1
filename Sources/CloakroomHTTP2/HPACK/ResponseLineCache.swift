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

    /// Replaces the line of a slot.
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
        for index in 0..<count { self[position + index] = ASCII.lowerCase(source[start + index]) }
    }
}

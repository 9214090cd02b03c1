package import CloakroomWire
import NIOCore

/// The `Cookie` field that a connection sent last, and what was read from it. Clients repeat it, and comparing it costs a fifth
/// of reading it.
package struct RepeatedCookies: Sendable, Unprintable {
    /// The maximum length of a field that is kept, in bytes: connections may be idle for long.
    package static let maxLength = 512

    /// Of the configuration that the field was read with.
    private var cookie: SessionCookie?
    private(set) var field: [UInt8] = []
    private var reading = SessionCookie.ParseResult.absent
    /// With positions in the field.
    private var others = OtherCookies()

    package init() {}

    /// Does what ``SessionCookie/read(_:others:)`` does.
    package mutating func read(
        _ cookie: SessionCookie, _ head: borrowing RequestHead, others: inout OtherCookies
    ) -> SessionCookie.ParseResult {
        var only = SingletonField.absent
        for field in head.fields where field.name == .cookie { only.add(field.valueRange) }
        guard case .value(let range) = only, range.count <= Self.maxLength else {
            return only == .absent ? .absent : cookie.read(head, others: &others)
        }
        let bytes = head.bytes.readableBytesUInt8Span.extracting(range.start..<range.end)
        if self.cookie !== cookie || !field.span.isSameSecret(as: bytes) {
            self.cookie = cookie
            field.removeAll(keepingCapacity: true)
            for index in bytes.indices { field.append(bytes[index]) }
            self.others = OtherCookies()
            reading = cookie.read(head, others: &self.others)
            self.others.bound.move(by: -range.start)
        }
        others = self.others
        others.bound.move(by: range.start)
        return reading
    }
}

extension SingletonField {
    fileprivate mutating func move(by count: Int) {
        if case .value(var range) = self {
            range.start += count
            self = .value(range)
        }
    }
}

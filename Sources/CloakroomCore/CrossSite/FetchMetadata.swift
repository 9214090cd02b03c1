package import CloakroomWire
import NIOCore

/// The fields by which a navigation is distinguished from a request of a script, and one of the user from one of
/// another site (Fetch Metadata Request Headers, the fields `Sec-Fetch-Mode`, `Sec-Fetch-Dest`, `Sec-Fetch-Site` and
/// `Sec-Purpose`).
///
/// Only a navigation may be redirected to a provider. A script cannot follow such a redirect: it would get an opaque
/// failure in place of the 401 that it can process, and each attempt would leave a login cookie.
public struct FetchMetadata: Sendable, Equatable {
    /// The fields that ``isNavigation`` depends on: the value for `Vary` (RFC 9110 §12.5.5).
    public static let vary = "Sec-Fetch-Mode, Sec-Fetch-Dest, Sec-Purpose, Accept"

    /// A field of which one value is of interest. If it is repeated, it has none of the values that are compared.
    private enum Value {
        case absent, expected, other

        mutating func add(_ isExpected: Bool) { self = self == .absent && isExpected ? .expected : .other }
    }

    private let isGET: Bool
    private var (mode, destination, site) = (Value.absent, Value.absent, Value.absent)
    private var (isPrefetch, acceptsHTML) = (false, false)
    /// Whether a script of a page may have set any field of the request. In the mode `no-cors` it can set the fields of any
    /// form only (Fetch §2.2.2), and a browser without `Sec-Fetch-Mode` cannot be distinguished from a program.
    public private(set) var mayHaveScriptFields = false

    /// Reads the metadata of a request. The cost is that of one pass over its fields.
    package init(_ head: borrowing RequestHead, isGET: Bool) {
        self.isGET = isGET
        let bytes = head.bytes.readableBytesUInt8Span
        for field in head.fields { read(field.nameRange, field.valueRange, bytes) }
    }

    /// Creates the metadata of a request with the given values of `Sec-Fetch-Mode`, `Sec-Fetch-Dest`, `Sec-Fetch-Site`,
    /// `Sec-Purpose` and `Accept`; `nil` if a field is absent.
    public init(
        isGET: Bool, mode: String? = nil, destination: String? = nil, site: String? = nil, purpose: String? = nil,
        accept: String? = nil
    ) {
        self.isGET = isGET
        let fields = [
            ("sec-fetch-mode", mode), ("sec-fetch-dest", destination), ("sec-fetch-site", site),
            ("sec-purpose", purpose), ("accept", accept),
        ]
        for case (let name, let value?) in fields {
            let (bytes, count) = (Array((name + value).utf8), name.utf8.count)
            read(ByteRange(0..<count), ByteRange(count..<bytes.count), bytes.span)
        }
    }

    private mutating func read(_ name: ByteRange, _ value: ByteRange, _ bytes: Span<UInt8>) {
        if ASCII.equals(bytes, name, "sec-fetch-mode") {
            mode.add(ASCII.equalsCaseSensitive(bytes, value, "navigate"))
            mayHaveScriptFields = mayHaveScriptFields || !ASCII.equalsCaseSensitive(bytes, value, "no-cors")
        } else if ASCII.equals(bytes, name, "sec-fetch-dest") {
            destination.add(ASCII.equalsCaseSensitive(bytes, value, "document"))
        } else if ASCII.equals(bytes, name, "sec-fetch-site") {
            site.add(
                ASCII.equalsCaseSensitive(bytes, value, "same-origin")
                    || ASCII.equalsCaseSensitive(bytes, value, "none"))
        } else if ASCII.equals(bytes, name, "accept") {
            acceptsHTML = acceptsHTML || Self.namesHTML(value, bytes)
        } else if ASCII.equals(bytes, name, "sec-purpose") || ASCII.equals(bytes, name, "purpose") {
            // `prefetch` and `prefetch;prerender` (a structured field, RFC 9651 §3.1.2).
            let isWord: (ByteRange, Span<UInt8>) -> Bool = {
                ASCII.equals($1, $0, "prefetch") || ASCII.equals($1, $0, "prerender")
            }
            isPrefetch = isPrefetch || Self.hasPart(value, bytes, where: isWord)
        }
    }

    /// Whether the request loads a document into a tab, so that a redirect to a provider is visible to the user.
    ///
    /// Frames have another destination. A prefetch is no navigation: its response may never be shown. A browser that
    /// sends only one of `Sec-Fetch-Mode` and `Sec-Fetch-Dest` does not exist; such a request is no navigation.
    /// Without both, `Accept` has to name `text/html`.
    public var isNavigation: Bool {
        guard isGET, !isPrefetch else { return false }
        if mode == .absent, destination == .absent { return acceptsHTML }
        return mode == .expected && destination == .expected
    }

    /// The fields that ``isShown`` depends on: the value for `Vary`.
    public static let shownVary = "Accept, Sec-Fetch-Mode"

    /// Whether a browser that sends `Sec-Fetch-Mode` made the request.
    public var hasMode: Bool { mode != .absent }

    /// Whether no script can read the fields of the response: a document is loaded into a tab, by any method, and not through
    /// a service worker, whose requests have no destination.
    public var hidesResponse: Bool { mode == .expected && destination == .expected }

    /// Whether the user sees the response to the request, whatever its method: it is a navigation and not a request of a
    /// script, which would have to understand a page.
    public var isShown: Bool { mode != .other && acceptsHTML }

    /// ``isShown`` of a head, which is `inout` because a property of a class would be copied. Usually ends at `Accept`.
    package static func isShown(_ head: inout RequestHead) -> Bool {
        let bytes = head.bytes.readableBytesUInt8Span
        return head.fields.contains {
            $0.nameCount == 6 && $0.valueCount >= 9 && ASCII.equals(bytes, $0.nameRange, "accept")
                && namesHTML($0.valueRange, bytes)
        } && FetchMetadata(head, isGET: false).isShown
    }

    /// Whether no page of another origin caused the request: it is of a page of the gateway, or of the user, for
    /// example from the address bar. Another site can choose all parameters of a link to the gateway, but not this
    /// field.
    ///
    /// A redirect keeps the site that it began at. Browsers without the field cannot be distinguished.
    public var isOwn: Bool { site != .other }

    /// `*/*` does not count: scripts send it by default. A weight of 0 rejects the type (RFC 9110 §12.4.2). At most 1,024
    /// bytes of a value are read; browsers send fewer than 200.
    private static func namesHTML(_ value: ByteRange, _ bytes: Span<UInt8>) -> Bool {
        var types = ListTokenIterator(ByteRange(start: value.start, count: min(value.count, 1_024)))
        while let range = types.next(bytes) {
            let end = FieldScan.first(UInt8(ascii: ";"), in: bytes, from: range.start, to: range.end)
            let type = ByteRange(FieldScan.trimmed(bytes, range.start..<end))
            guard ASCII.equals(bytes, type, "text/html") else { continue }
            let isRejected = hasPart(ByteRange(end..<range.end), bytes) { part, bytes in
                ASCII.hasPrefix(bytes, part, "q=0")
                    && (part.start + 3..<part.end).allSatisfy { bytes[$0] == 0x30 || bytes[$0] == 0x2e }
            }
            if !isRejected { return true }
        }
        return false
    }

    /// Whether one of the parts between semicolons satisfies a condition.
    private static func hasPart(
        _ value: ByteRange, _ bytes: Span<UInt8>, where isMatch: (ByteRange, Span<UInt8>) -> Bool
    ) -> Bool {
        var start = value.start
        while start < value.end {
            let end = FieldScan.first(UInt8(ascii: ";"), in: bytes, from: start, to: value.end)
            if isMatch(ByteRange(FieldScan.trimmed(bytes, start..<end)), bytes) { return true }
            start = end + 1
        }
        return false
    }
}

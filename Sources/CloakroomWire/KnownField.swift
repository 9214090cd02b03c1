/// The header fields that framing and policy use; all others are ``other``.
public enum KnownField: UInt8, Sendable, CaseIterable {
    case other
    case host, connection, keepAlive, proxyConnection, te, trailer, transferEncoding, upgrade
    case proxyAuthenticate, proxyAuthorization, proxyAuthenticationInfo
    case contentLength, expect, authorization, cookie, setCookie
    case via, forwarded, xForwardedFor, xForwardedProto, xForwardedHost, xForwardedPort, xForwardedServer, xRealIP
    case xRequestID, traceparent, tracestate
    case maxForwards, date, cacheControl, vary, contentType, http2Settings
    case origin, secFetchSite, userAgent, retryAfter

    /// The name in lower case; empty for ``other``.
    public var text: String {
        switch self {
        case .other: ""
        case .host: "host"
        case .connection: "connection"
        case .keepAlive: "keep-alive"
        case .proxyConnection: "proxy-connection"
        case .te: "te"
        case .trailer: "trailer"
        case .transferEncoding: "transfer-encoding"
        case .upgrade: "upgrade"
        case .proxyAuthenticate: "proxy-authenticate"
        case .proxyAuthorization: "proxy-authorization"
        case .proxyAuthenticationInfo: "proxy-authentication-info"
        case .contentLength: "content-length"
        case .expect: "expect"
        case .authorization: "authorization"
        case .cookie: "cookie"
        case .setCookie: "set-cookie"
        case .via: "via"
        case .forwarded: "forwarded"
        case .xForwardedFor: "x-forwarded-for"
        case .xForwardedProto: "x-forwarded-proto"
        case .xForwardedHost: "x-forwarded-host"
        case .xForwardedPort: "x-forwarded-port"
        case .xForwardedServer: "x-forwarded-server"
        case .xRealIP: "x-real-ip"
        case .xRequestID: "x-request-id"
        case .traceparent: "traceparent"
        case .tracestate: "tracestate"
        case .maxForwards: "max-forwards"
        case .date: "date"
        case .cacheControl: "cache-control"
        case .vary: "vary"
        case .contentType: "content-type"
        case .http2Settings: "http2-settings"
        case .origin: "origin"
        case .secFetchSite: "sec-fetch-site"
        case .userAgent: "user-agent"
        case .retryAfter: "retry-after"
        }
    }
}

/// Maps names to known fields, regardless of case, without creating a string.
///
/// A name is packed into up to four words of eight bytes; the table has one short list of candidates for each length.
package struct KnownFieldTable: Sendable {
    private struct Entry {
        var words: (UInt64, UInt64, UInt64, UInt64)
        var field: KnownField
    }

    private static let longest = 25
    /// The start of the candidates in `entries`, by length.
    private var starts: [Int]
    private var entries: [Entry] = []

    package static let shared = KnownFieldTable()

    init() {
        starts = Array(repeating: 0, count: Self.longest + 2)
        for length in 0...Self.longest {
            starts[length] = entries.count
            for field in KnownField.allCases where field != .other && field.text.utf8.count == length {
                let bytes = Array(field.text.utf8)
                entries.append(Entry(words: Self.pack(bytes.span, from: 0, count: length), field: field))
            }
        }
        starts[Self.longest + 1] = entries.count
    }

    /// Returns the field whose name is at the given position.
    @inline(__always)
    package func field(_ bytes: Span<UInt8>, from start: Int, count: Int) -> KnownField {
        guard count <= Self.longest else { return .other }
        let first = starts[count]
        let end = starts[count + 1]
        guard first < end else { return .other }
        let words = Self.pack(bytes, from: start, count: count)
        var index = first
        while index < end {
            let candidate = entries[index]
            if candidate.words == words { return candidate.field }
            index += 1
        }
        return .other
    }

    /// Setting bit 5 folds the case of letters and does not change digits and hyphens. No other token character becomes
    /// one of these, so equal words mean equal names.
    @inline(__always)
    private static func pack(_ bytes: Span<UInt8>, from start: Int, count: Int) -> (UInt64, UInt64, UInt64, UInt64) {
        guard count >= 8 else { return (word(bytes, from: start, count: count), 0, 0, 0) }
        let raw = bytes.bytes
        let fold: UInt64 = 0x2020_2020_2020_2020
        // If the length is not a multiple of eight, the last word overlaps the one before it.
        return (
            raw.unsafeLoadUnaligned(fromByteOffset: start, as: UInt64.self) | fold,
            count > 16 ? raw.unsafeLoadUnaligned(fromByteOffset: start + 8, as: UInt64.self) | fold : 0,
            count > 24 ? raw.unsafeLoadUnaligned(fromByteOffset: start + 16, as: UInt64.self) | fold : 0,
            raw.unsafeLoadUnaligned(fromByteOffset: start + count - 8, as: UInt64.self) | fold
        )
    }

    @inline(__always)
    private static func word(_ bytes: Span<UInt8>, from start: Int, count: Int) -> UInt64 {
        var word: UInt64 = 0
        var index = 0
        while index < count {
            word = word << 8 | UInt64(bytes[start + index] | 0x20)
            index += 1
        }
        return word
    }
}

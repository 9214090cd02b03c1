/// The kind of token that `typ` declares (RFC 7515 §4.1.9): a media type, in any case, with or without `application/`.
public enum TokenType: String, Sendable, Hashable, CaseIterable {
    /// The header has no `typ`.
    case unspecified = ""
    /// `JWT`.
    case jwt = "JWT"
    /// `logout+jwt` (OpenID Connect Back-Channel Logout §2.4).
    case logout = "logout+jwt"
    /// `at+jwt` (RFC 9068 §2.1).
    case accessToken = "at+jwt"
    /// `dbsc+jwt` (Device Bound Session Credentials).
    case device = "dbsc+jwt"
    /// `dpop+jwt` (RFC 9449 §4.2).
    case proof = "dpop+jwt"
    /// Any other.
    case other

    package init(_ name: String?) {
        guard let name else {
            self = .unspecified
            return
        }
        let (type, prefix) = (name.utf8.map(ASCII.lower), "application/".utf8)
        let subtype = type.starts(with: prefix) ? type[prefix.count...] : type[...]
        self =
            Self.allCases.first {
                $0 != .unspecified && subtype.elementsEqual($0.rawValue.utf8.map(ASCII.lower))
            } ?? .other
    }
}

import CloakroomWire

/// The fields by which a navigation is distinguished from a request of a script, and one of the user from one of
/// another site (Fetch Metadata Request Headers, the fields `Sec-Fetch-Mode`, `Sec-Fetch-Dest`, `Sec-Fetch-Site` and
/// `Sec-Purpose`).
///
/// Only a navigation may be redirected to a provider. A script cannot follow such a redirect: it would get an opaque
/// failure in place of the 401 that it can process, and each attempt would leave a login cookie.
public struct FetchMetadata: Sendable, Equatable {
    /// The fields that ``isNavigation`` depends on: the value for `Vary` (RFC 9110 §12.5.5).
    public static let vary = "Sec-Fetch-Mode, Sec-Fetch-Dest, Sec-Purpose, Accept"

    /// Whether the method is `GET`.
    public var isGET: Bool
    /// The value of `Sec-Fetch-Mode`; `nil` if absent.
    public var mode: String?
    /// The value of `Sec-Fetch-Dest`; `nil` if absent.
    public var destination: String?
    /// The value of `Sec-Fetch-Site`; `nil` if absent.
    public var site: String?
    /// The value of `Sec-Purpose`, or of the older `Purpose`; `nil` if absent.
    public var purpose: String?
    /// The value of `Accept`; `nil` if absent.
    public var accept: String?

    /// Creates the metadata of a request.
    public init(
        isGET: Bool, mode: String? = nil, destination: String? = nil, site: String? = nil, purpose: String? = nil,
        accept: String? = nil
    ) {
        self.isGET = isGET
        self.mode = mode
        self.destination = destination
        self.site = site
        self.purpose = purpose
        self.accept = accept
    }

    /// Whether the request loads a document into a tab, so that a redirect to a provider is visible to the user.
    ///
    /// Frames have another destination. A prefetch is no navigation: its response may never be shown. A browser that
    /// sends only one of `Sec-Fetch-Mode` and `Sec-Fetch-Dest` does not exist; such a request is no navigation.
    /// Without both, `Accept` has to name `text/html`.
    public var isNavigation: Bool {
        guard isGET, !Self.isPrefetch(purpose) else { return false }
        if mode == nil, destination == nil { return Self.namesHTML(accept) }
        return mode == "navigate" && destination == "document"
    }

    /// The fields that ``isShown`` depends on: the value for `Vary`.
    public static let shownVary = "Accept, Sec-Fetch-Mode"

    /// Whether the user sees the response to the request, whatever its method: it is a navigation and not a request of a
    /// script, which would have to understand a page.
    public var isShown: Bool { (mode ?? "navigate") == "navigate" && Self.namesHTML(accept) }

    /// Whether no page of another origin caused the request: it is of a page of the gateway, or of the user, for
    /// example from the address bar. Another site can choose all parameters of a link to the gateway, but not this
    /// field.
    ///
    /// A redirect keeps the site that it began at. Browsers without the field cannot be distinguished.
    public var isOwn: Bool { site == nil || site == "same-origin" || site == "none" }

    /// `prefetch` and `prefetch;prerender` (a structured field, RFC 9651 §3.1.2).
    private static func isPrefetch(_ purpose: String?) -> Bool {
        guard let purpose else { return false }
        return purpose.utf8.split(separator: UInt8(ascii: ";")).contains { part in
            let word = part.filter { !Byte.isBlank($0) }.map(Byte.lowerCase)
            return word.elementsEqual("prefetch".utf8) || word.elementsEqual("prerender".utf8)
        }
    }

    /// `*/*` does not count: scripts send it by default. A weight of 0 rejects the type (RFC 9110 §12.4.2).
    private static func namesHTML(_ accept: String?) -> Bool {
        guard let accept else { return false }
        return accept.utf8.split(separator: UInt8(ascii: ",")).contains { range in
            let parts = range.split(separator: UInt8(ascii: ";")).map { part in
                part.filter { !Byte.isBlank($0) }.map(Byte.lowerCase)
            }
            guard let type = parts.first, type.elementsEqual("text/html".utf8) else { return false }
            return !parts.dropFirst().contains { part in
                part.starts(with: "q=0".utf8) && part.dropFirst(3).allSatisfy { $0 == 0x30 || $0 == 0x2e }
            }
        }
    }
}

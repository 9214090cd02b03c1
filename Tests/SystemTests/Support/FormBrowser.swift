import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import Synchronization

/// A browser without scripts: it follows redirects, keeps the cookies of each host and port, and fills in forms.
///
/// Chromium is for what only a browser decides, such as `SameSite`. Cookies here are sent to the origin that set them,
/// whatever their attributes.
final class FormBrowser: Sendable {
    /// Where a visit ended.
    struct Page {
        /// The URL of the response or, if the visit stopped before a request, of that request.
        let url: String
        /// `nil` if the visit stopped before a request.
        let response: TestResponse?

        /// The query parameters of the URL.
        var query: [String: String] { FormBrowser.query(of: url) }
        var status: Int? { response?.status }
    }

    struct TooManySteps: Error {
        let url: String
    }

    /// How a browser marks navigations that its user began.
    static let navigation = [
        ("Accept", "text/html,application/xhtml+xml,*/*;q=0.8"), ("Sec-Fetch-Mode", "navigate"),
        ("Sec-Fetch-Dest", "document"), ("Sec-Fetch-Site", "none"), ("Sec-Fetch-User", "?1"),
    ]
    /// How a browser marks requests of a page's script to its own origin.
    static let fetch = [
        ("Accept", "application/json"), ("Sec-Fetch-Mode", "cors"), ("Sec-Fetch-Dest", "empty"),
        ("Sec-Fetch-Site", "same-origin"),
    ]

    private static let http = HTTPClient(
        eventLoopGroupProvider: .singleton, configuration: HTTPClient.Configuration(redirectConfiguration: .disallow))

    /// The cookies by origin and name.
    private let jars: Mutex<[String: [String: String]]>
    private let recorded = Mutex<[TestResponse]>([])

    init(cookies: [String: [String: String]] = [:]) {
        jars = Mutex(cookies)
    }

    /// The cookies of an origin by name.
    func cookies(of origin: String) -> [String: String] {
        jars.withLock { $0[origin] ?? [:] }
    }

    /// Sets or removes a cookie.
    func setCookie(_ name: String, _ value: String?, of origin: String) {
        jars.withLock { $0[origin, default: [:]][name] = value }
    }

    /// Another browser with the same cookies.
    func copy() -> FormBrowser {
        FormBrowser(cookies: jars.withLock { $0 })
    }

    /// All responses so far.
    var responses: [TestResponse] { recorded.withLock { $0 } }

    /// Sends one request with the cookies of its origin; redirects are not followed.
    func send(
        _ method: String, _ url: String, _ fields: [(String, String)] = FormBrowser.fetch, body: String? = nil
    ) async throws -> TestResponse {
        let origin = Self.origin(of: url)
        var request = HTTPClientRequest(url: url)
        request.method = HTTPMethod(rawValue: method)
        request.headers = HTTPHeaders(fields)
        let cookies = cookies(of: origin).sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
        if !cookies.isEmpty { request.headers.add(name: "Cookie", value: cookies.joined(separator: "; ")) }
        if let body { request.body = .bytes(ByteBuffer(string: body)) }
        let response = try await Self.http.execute(request, timeout: .seconds(60))
        let result = TestResponse(
            status: Int(response.status.code), fields: response.headers.map { ($0.name, $0.value) },
            body: String(buffer: try await response.body.collect(upTo: 1 << 22)))
        for field in result.values(of: "Set-Cookie") { store(field, of: origin) }
        recorded.withLock { $0.append(result) }
        return result
    }

    /// Sends a JSON document.
    func send(_ method: String, _ url: String, json: String) async throws -> TestResponse {
        try await send(method, url, Self.fetch + [("Content-Type", "application/json")], body: json)
    }

    /// Navigates to a URL, and on from there: through redirects, pages that refresh, and forms with known fields.
    /// - Parameters:
    ///   - stop: The beginning of a URL that is not requested: the visit ends before.
    ///   - form: The values of fields. A form without any of them ends the visit.
    func visit(_ url: String, stop: String? = nil, form: [String: String] = [:]) async throws -> Page {
        var url = url
        var body: String?
        for _ in 0..<20 {
            if let stop, url.hasPrefix(stop), body == nil { return Page(url: url, response: nil) }
            let fields = Self.navigation + (body == nil ? [] : [("Content-Type", "application/x-www-form-urlencoded")])
            let response = try await send(body == nil ? "GET" : "POST", url, fields, body: body)
            if (301...303).contains(response.status) || response.status == 307,
                let location = response.values(of: "Location").first, let next = Self.resolve(location, at: url)
            {
                (url, body) = (next, nil)
            } else if let next = response.refreshTarget.flatMap({ Self.resolve($0, at: url) }) {
                (url, body) = (next, nil)
            } else if response.status == 200, let filled = HTMLForm(response.body)?.filled(with: form),
                let next = Self.resolve(filled.action, at: url)
            {
                (url, body) = (next, filled.body)
            } else {
                return Page(url: url, response: response)
            }
        }
        throw TooManySteps(url: url)
    }

    private func store(_ field: String, of origin: String) {
        let parts = field.split(separator: ";").map { $0.trimmingCharacters(in: .whitespaces) }
        guard let pair = parts.first, let equals = pair.firstIndex(of: "=") else { return }
        let value = String(pair[pair.index(after: equals)...])
        let isRemoved =
            value.isEmpty || parts.dropFirst().contains { $0.lowercased() == "max-age=0" || $0.contains("1970") }
        setCookie(String(pair[..<equals]), isRemoved ? nil : value, of: origin)
    }

    /// Scheme, host and port.
    static func origin(of url: String) -> String {
        let parts = URLComponents(string: url)
        let port = parts?.port.map { ":\($0)" } ?? ""
        return "\(parts?.scheme ?? "")://\(parts?.host ?? "")\(port)"
    }

    static func query(of url: String) -> [String: String] {
        let text = URLComponents(string: url)?.percentEncodedQuery?.replacing("+", with: "%20") ?? ""
        let items = URLComponents(string: "?" + text)?.queryItems ?? []
        return Dictionary(items.map { ($0.name, $0.value ?? "") }) { first, _ in first }
    }

    private static func resolve(_ reference: String, at base: String) -> String? {
        URL(string: reference, relativeTo: URL(string: base))?.absoluteString
    }
}

extension TestResponse {
    /// The target of `<meta http-equiv=refresh>`.
    var refreshTarget: String? {
        guard let match = body.firstMatch(of: /<meta http-equiv="refresh" content="0;url=([^"]*)">/) else { return nil }
        return HTMLForm.unescaped(String(match.1))
    }
}

/// The first form of a page that is sent with POST. Only attributes in double quotes are read.
private struct HTMLForm {
    let action: String
    let fields: [(name: String, value: String)]

    init?(_ page: String) {
        guard let start = page.firstMatch(of: /<form\b([^>]*)>/), start.1.contains("post") else { return nil }
        action = Self.attribute("action", of: start.1) ?? ""
        let end = page[start.range.upperBound...].firstRange(of: "</form>")?.lowerBound ?? page.endIndex
        fields = page[start.range.upperBound..<end].matches(of: /<(?:input|button)\b([^>]*)>/).compactMap { match in
            Self.attribute("name", of: match.1).map { ($0, Self.attribute("value", of: match.1) ?? "") }
        }
    }

    /// The request that sends the form; `nil` if no field has a value.
    func filled(with values: [String: String]) -> (action: String, body: String)? {
        guard fields.contains(where: { values[$0.name] != nil }) else { return nil }
        let pairs = fields.map { name, value in "\(Self.encode(name))=\(Self.encode(values[name] ?? value))" }
        return (action, pairs.joined(separator: "&"))
    }

    static func unescaped(_ text: String) -> String {
        text.replacing("&quot;", with: "\"").replacing("&#39;", with: "'").replacing("&lt;", with: "<")
            .replacing("&gt;", with: ">").replacing("&amp;", with: "&")
    }

    private static func attribute(_ name: String, of tag: Substring) -> String? {
        guard let start = tag.firstRange(of: " \(name)=\"") else { return nil }
        return unescaped(String(tag[start.upperBound...].prefix { $0 != "\"" }))
    }

    private static func encode(_ text: String) -> String {
        text.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
    }
}

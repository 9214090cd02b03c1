import CloakroomCore
import CloakroomWire

extension ValueFormat where Value == ClosedRange<Int> {
    /// A status or a range of statuses: `204`, `200-299`.
    static let statuses = ValueFormat(
        "status or range of statuses such as `200-299`, 100 to 599",
        render: { $0.count == 1 ? String($0.lowerBound) : "\($0.lowerBound)-\($0.upperBound)" }
    ) { text throws(ConfigValueError) in
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        let bounds = parts.compactMap { part in
            part.utf8.count == 3 && part.utf8.allSatisfy { (0x30...0x39).contains($0) } ? Int(part) : nil
        }
        guard let first = bounds.first, let last = bounds.last, bounds.count == parts.count, bounds.count <= 2
        else {
            throw ConfigValueError(
                "must be a status or a range of statuses, not \(text.quoted)", "write one such as 204 or 200-299")
        }
        try require(
            first <= last && (100...599).contains(first) && (100...599).contains(last),
            "must be in the allowed range, not \(text)", "write 100 to 599, the lower status first")
        return first...last
    }
}

extension ValueFormat where Value == Int {
    /// A status after which a request may be sent again.
    static let retriedStatus = ValueFormat("`502`, `503`, `504`") { text throws(ConfigValueError) in
        guard let status = Int(text), RetryConfiguration.allowedStatuses.contains(status), text.utf8.count == 3 else {
            throw ConfigValueError(
                "must be a status of a gateway or of overload, not \(text.quoted)", "write 502, 503 or 504")
        }
        return status
    }
}

extension RetryConfiguration {
    /// The statuses after which a request may be sent again.
    static let allowedStatuses: ClosedRange<Int> = 502...504
}

extension ValueFormat where Value == RequestMethod {
    /// A method that the gateway distinguishes from others.
    static let knownMethod = ValueFormat(
        "`GET`, `HEAD`, `OPTIONS`, `PUT`, `DELETE`, `POST`, `PATCH`", render: { "\($0.name)" }
    ) { text throws(ConfigValueError) in
        let name = try ValueFormat<String>.method.parse(text)
        let method = RequestMethod(Array(name.utf8).span)
        try require(
            method != .other, "must be one of the allowed methods, not \(text.quoted)",
            "write GET, HEAD, OPTIONS, PUT, DELETE, POST or PATCH")
        return method
    }
}

extension ValueFormat where Value == String {
    /// The name of a gRPC service; empty for the whole server.
    static let grpcService = ValueFormat(
        "name of a gRPC service, or empty for the whole server", render: { $0.isEmpty ? "\"\"" : $0 }
    ) { text throws(ConfigValueError) in
        try require(
            text.utf8.count <= 255 && text.consists(ofLettersDigitsOr: "._-/"),
            "must be the name of a gRPC service, not \(text.quoted)",
            "write one such as package.Service, or \"\" for the whole server")
        return text
    }
}

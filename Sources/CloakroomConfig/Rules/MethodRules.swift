/// Warnings about well-formed methods.
///
/// Any token is a legal method (RFC 9110 §9.1). An unregistered method causes a warning only if it is similar to a
/// registered one.
enum MethodRules {
    /// The methods of the IANA HTTP Method Registry that a route can serve, and `QUERY`.
    static let registered = [
        "ACL", "BASELINE-CONTROL", "BIND", "CHECKIN", "CHECKOUT", "COPY", "DELETE", "GET", "HEAD", "LABEL", "LINK",
        "LOCK", "MERGE", "MKACTIVITY", "MKCALENDAR", "MKCOL", "MKREDIRECTREF", "MKWORKSPACE", "MOVE", "OPTIONS",
        "ORDERPATCH", "PATCH", "POST", "PROPFIND", "PROPPATCH", "PUT", "QUERY", "REBIND", "REPORT", "SEARCH", "UNBIND",
        "UNCHECKOUT", "UNLINK", "UNLOCK", "UPDATE", "UPDATEREDIRECTREF", "VERSION-CONTROL",
    ]

    /// Methods of other specifications (UPnP) and of caches; some are similar to registered ones.
    private static let unregistered: Set<String> = ["BAN", "M-SEARCH", "NOTIFY", "PURGE", "SUBSCRIBE", "UNSUBSCRIBE"]

    /// Words that mean "all methods" in other products.
    private static let collective: Set<String> = ["ALL", "ANY"]

    /// The warning for a method; `nil` for most.
    static func warning(about method: String) -> ConfigValueError? {
        guard !registered.contains(method), !unregistered.contains(method) else { return nil }
        if collective.contains(method) {
            return ConfigValueError(
                "\(method) is the name of one method, not of all methods",
                "list them, such as [GET, POST, PUT, PATCH, DELETE, OPTIONS]")
        }
        guard let nearest = NameSuggestion.nearest(to: method, among: registered) else { return nil }
        // Short methods are similar to each other: one edit is a typo, two may be another word.
        let most = method.count < 6 ? 1 : 2
        guard NameSuggestion.distance(Array(method), Array(nearest)) <= most else { return nil }
        return ConfigValueError(
            "\(DiagnosticText.quoted(method)) is not a registered method", "did you mean \(nearest)?")
    }
}

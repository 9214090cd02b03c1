import Foundation

// Prints one line per facility of Foundation that reads ICU data. .ci/check-release links it with all of the data and with
// the part that deploy/icu-data.py keeps, and compares the output.
let date = Date(timeIntervalSince1970: 1_800_000_000)
let english = Locale(identifier: "en_US_POSIX")
let zone = TimeZone(identifier: "Europe/Zurich")

print("locale", english.identifier, english.decimalSeparator ?? "-")
print("zone", zone?.secondsFromGMT(for: date) ?? -1, zone?.abbreviation(for: date) ?? "-")
let formatter = DateFormatter()
formatter.locale = english
formatter.timeZone = zone
formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss ZZZZ"
print("date", formatter.string(from: date), formatter.date(from: formatter.string(from: date)) == date)
print("iso", date.formatted(.iso8601), (try? Date("2027-01-15T08:00:00Z", strategy: .iso8601)) == date)
let iso = ISO8601DateFormatter()
iso.formatOptions = [.withInternetDateTime, .withFractionalSeconds]
print("iso formatter", iso.string(from: date))
var calendar = Calendar(identifier: .gregorian)
calendar.timeZone = zone ?? calendar.timeZone
print("calendar", calendar.dateComponents([.year, .month, .day, .hour, .weekOfYear, .weekday], from: date))
print("number", 1234567.891.formatted(.number.locale(english)), String(format: "%.3f|%5d|%@", 1.5, 42, "x"))
let numbers = NumberFormatter()
numbers.locale = Locale(identifier: "en_US")
numbers.numberStyle = .decimal
print("number formatter", numbers.string(from: 1234567.25) ?? "-", numbers.number(from: "1,234.5") ?? -1)
print("bytes", Int64(123_456_789).formatted(.byteCount(style: .file).locale(Locale(identifier: "en_US"))))
print("duration", Duration.seconds(3725).formatted(.time(pattern: .hourMinuteSecond).locale(english)))
print("compare", "a".localizedStandardCompare("B").rawValue, "é".compare("E", options: [.caseInsensitive, .diacriticInsensitive]).rawValue)
print("case", "Straße".uppercased(with: english), "TITLE".lowercased(with: english), "a title".capitalized)
print("fold", "Éa".folding(options: [.diacriticInsensitive, .caseInsensitive], locale: nil), "é".decomposedStringWithCanonicalMapping.unicodeScalars.count)
print("translit", "Größe".applyingTransform(.toLatin, reverse: false) ?? "-", "Größe".applyingTransform(.stripDiacritics, reverse: false) ?? "-")
print("regex", "a1b22".range(of: "[0-9]{2}", options: .regularExpression) != nil, (try? NSRegularExpression(pattern: "\\bb\\p{Nd}+", options: []))?.numberOfMatches(in: "a b22", range: NSRange(location: 0, length: 5)) ?? -1)
for encoding in [String.Encoding.utf8, .utf16, .isoLatin1, .ascii, .windowsCP1252, .macOSRoman] {
    print("encoding", encoding.rawValue, "aé".data(using: encoding)?.count ?? -1)
}
print("url", URL(string: "https://bücher.example/ä?b=c d")?.absoluteString ?? "-", URLComponents(string: "https://a.example:1/p?q=1")?.port ?? -1)
print("json", String(decoding: (try? JSONEncoder().encode(["a": 1.5])) ?? Data(), as: UTF8.self))
print("current", Locale.current.identifier.isEmpty, TimeZone.current.secondsFromGMT() < 86_400, Calendar.current.component(.year, from: date))
// Languages without data: ICU falls back to the root locale. `false`: not empty.
for name in ["de_DE", "ar_EG", "zh_Hant_TW", "th_TH", "tr"] {
    let other = Locale(identifier: name)
    formatter.locale = other
    formatter.dateStyle = .full
    print("other", name, formatter.string(from: date).isEmpty, 1.5.formatted(.number.locale(other)).isEmpty, "i".uppercased(with: other).isEmpty)
}

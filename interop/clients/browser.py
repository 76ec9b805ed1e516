"""A browser without a person: it opens a URL, keeps cookies and goes where it is sent. SCRIPT URL."""

import http.cookiejar
import sys
import urllib.request

cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), cookies)
with opener.open(sys.argv[1], timeout=30) as page:
    print(page.status, page.read().decode())
